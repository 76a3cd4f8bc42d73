"""A study and a project, each brought to what the other knows."""

import json

import pytest

import goalward as gw
from goalward.errors import (
    BadParameter,
    Empty,
    LabelStudioError,
    NotReached,
    StudyExists,
    UnknownLabel,
)
from goalward.studio.label_studio import Bridge, create_study
from tests.studio.label_studio.conftest import mood, review
from tests.studio.label_studio.fake import CONFIG, FakeLabelStudio


def row_of(fake, task):
    return fake.tasks[task]["data"]["goalward_row"]


def answer(fake, count, **more):
    """Do what a person does: take what is served, and answer it."""
    said = {}
    for _ in range(count):
        task = fake.served()
        label = mood(fake.tasks[task]["data"]["text"])
        fake.annotate(task, label, **more)
        said[row_of(fake, task)] = label
    return said


def test_rows_become_tasks_that_hold_what_is_shown_and_no_more(bridge, fake):
    done = bridge.sync()
    assert done.imported == 48
    data = [task["data"] for task in fake.tasks.values()]
    assert [one["text"] for one in data] == [review(i) for i in range(48)]
    assert {key for one in data for key in one} == {"text", "goalward_row", "goalward_pool"}


def test_named_columns_are_sent_too(study, client, fake):
    Bridge(study, client, send=["secret"]).sync()
    assert next(iter(fake.tasks.values()))["data"]["secret"] == "private 0"
    with pytest.raises(BadParameter, match="'price'"):
        Bridge(gw.Study.open(study.url), FakeRows(client), send=["price"]).sync()


class FakeRows:
    """A client whose project is empty."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def tasks(self):
        return iter(())


def test_annotations_become_answers_by_annotator_in_rounds(bridge, study, fake):
    first = bridge.sync()
    assert first.version.startswith("goalward-0000-")
    said = answer(fake, 8)
    done = bridge.sync()
    assert (done.told, done.withdrawn, done.refused) == (8, 0, ())
    assert dict(study.state.labels) == said
    (annotator,) = study.state.annotators
    assert annotator.startswith("label-studio/7-")
    assert annotator.endswith("/ann@example.org")
    assert done.version.startswith("goalward-0001-")
    assert fake.project["model_version"] == done.version


def test_the_task_served_next_is_the_one_the_study_would_ask(bridge, study, fake):
    bridge.sync()
    for _ in range(5):
        answer(fake, 4)
        bridge.sync()
        ranking = study.state.ranking
        assert ranking is not None
        assert row_of(fake, fake.served()) == ranking.queue[0]
        assert study.ask(1, refresh=False) == [row_of(fake, fake.served())]
        study.withdraw(ranking.queue[0])


def test_only_the_newest_version_of_ours_is_kept(bridge, fake):
    fake.project["model_version"] = "theirs"
    bridge.sync()
    fake.predictions.append({"task": 11, "score": 0.5, "model_version": "theirs", "result": []})
    answer(fake, 8)
    bridge.sync()
    answer(fake, 8)
    done = bridge.sync()
    versions = {p["model_version"] for p in fake.predictions}
    assert versions == {"theirs", done.version}


def test_the_score_orders_tasks_as_the_study_asks_for_rows(bridge, study, fake):
    bridge.sync()
    answer(fake, 8)
    bridge.sync()
    by_score = fake.ordered(list(fake.tasks.values()), "predictions_score", down=False)[:40]
    assert [row_of(fake, task["id"]) for task in by_score] == list(study.state.ranking.queue)


def test_a_second_pass_changes_nothing(bridge, study, client, fake):
    bridge.sync()
    answer(fake, 9)
    assert bridge.sync().changed
    events, writes = study.state.seq, len(fake.writes())
    assert not bridge.sync().changed
    assert not bridge.sync().changed
    again = Bridge(study, client)
    assert not again.sync().changed
    assert (study.state.seq, len(fake.writes())) == (events, writes)


def test_a_quiet_poll_is_one_request(bridge, fake):
    bridge.sync()
    bridge.sync()
    before = len(fake.log)
    bridge.sync()
    assert fake.log[before:] == ["GET /api/tasks"]


def test_changed_and_deleted_annotations_are_followed(bridge, study, fake):
    bridge.sync()
    tasks = sorted(fake.tasks)[:3]
    numbers = [fake.annotate(task, "good") for task in tasks]
    bridge.sync()
    fake.annotate(tasks[0], "bad", number=numbers[0])
    fake.delete(numbers[1])
    fake.annotate(tasks[2], number=numbers[2], cancelled=True)
    done = bridge.sync()
    assert (done.told, done.withdrawn, done.skipped) == (1, 1, 1)
    assert dict(study.state.labels) == {0: "bad"}
    assert set(study.state.skipped) == {2}


def test_answers_given_elsewhere_are_left_alone(bridge, study, fake):
    study.tell(5, "good", by="page")
    bridge.sync()
    answer(fake, 2)
    bridge.sync()
    assert study.state.labels[5] == "good"
    assert bridge.sync().withdrawn == 0


def test_an_answer_stays_when_its_task_is_deleted(bridge, study, fake):
    bridge.sync()
    number = fake.annotate(sorted(fake.tasks)[0], "good")
    bridge.sync()
    task = fake.annotations.pop(number)["task"]
    del fake.tasks[task]
    done = bridge.sync()
    assert done.withdrawn == 0
    assert study.state.labels[0] == "good"


def test_nothing_is_withdrawn_while_annotations_change_under_the_reader(
    bridge, study, fake, monkeypatch
):
    bridge.sync()
    number = fake.annotate(sorted(fake.tasks)[0], "good")
    bridge.sync()
    kept = fake.annotations.pop(number)
    fake.touch(kept["task"])
    read = bridge.client.answered

    def shifting():
        found = list(read())
        fake.annotations[number] = kept
        fake.touch(kept["task"])
        return iter(found)

    monkeypatch.setattr(bridge.client, "answered", shifting)
    assert bridge.sync().withdrawn == 0
    monkeypatch.undo()
    assert not bridge.sync().changed
    assert study.state.labels[0] == "good"


def test_what_does_not_fit_is_reported_and_not_lost(bridge, study, fake):
    bridge.sync()
    first, second, third, fourth = sorted(fake.tasks)[:4]
    fake.annotate(first, "ugly")
    fake.annotate(second, "good", "bad")
    fake.annotate(third)
    fake.annotate(fourth, "good", user=99)
    done = bridge.sync()
    assert [(one.task, one.reason) for one in done.refused] == [
        (first, "'ugly' is not one of the classes"),
        (second, "2 choices instead of one"),
        (third, "0 choices instead of one"),
    ]
    assert dict(study.state.labels) == {3: "good"}
    assert list(study.state.annotators) == [f"{bridge.prefix}user-99"]
    assert len(bridge.sync().refused) == 3


def test_of_two_annotators_the_later_counts_and_both_are_kept(bridge, study, fake):
    bridge.sync()
    task = sorted(fake.tasks)[0]
    fake.annotate(task, "bad", user=2)
    fake.annotate(sorted(fake.tasks)[1], "bad", user=1)
    fake.annotate(task, "good", user=1)
    fake.annotate(sorted(fake.tasks)[1], "good", user=2)
    bridge.sync()
    assert dict(study.state.labels) == {0: "good", 1: "good"}
    assert study.status()["disagreements"] == 2


def test_new_choices_are_refused_or_taken_as_classes(study, client, fake):
    fake.project["label_config"] = CONFIG.replace("</Choices>", '<Choice value="so-so"/></Choices>')
    with pytest.raises(UnknownLabel, match=r"Only Label Studio has \['so-so'\]"):
        Bridge(study, client)
    Bridge(study, client, add_classes=True)
    assert study.state.classes == ("good", "bad", "so-so")
    fake.project["label_config"] = CONFIG
    with pytest.raises(UnknownLabel, match=r"only the study \['so-so'\]"):
        Bridge(study, client, add_classes=True)


@pytest.mark.parametrize(
    "request_", ["PATCH /api/projects/7/", "DELETE /api/projects/7/model-versions/"]
)
def test_a_push_cut_short_is_made_good(bridge, client, study, fake, request_):
    old = bridge.sync().version
    answer(fake, 8)
    fake.broken = request_
    with pytest.raises(NotReached):
        bridge.sync()
    if request_.startswith("PATCH"):
        assert fake.project["model_version"] == old
    fake.broken = None
    again = Bridge(study, client)
    again.sync()
    tasks = [p["task"] for p in fake.predictions]
    assert len(tasks) == len(set(tasks)) == 40
    assert fake.project["model_version"] == again.version != old


def test_an_import_cut_short_goes_on_without_doubling(bridge, client, study, fake):
    bridge.sync()
    for task in sorted(fake.tasks)[10:20]:
        del fake.tasks[task]
    assert Bridge(study, client).sync().imported == 10
    assert sorted(row_of(fake, task) for task in fake.tasks) == list(range(48))


def test_tasks_of_others_are_counted_and_left_alone(bridge, fake):
    fake.add_task({"text": "not ours"})
    fake.add_task({"text": "of another study", "goalward_row": 3, "goalward_pool": "00000000"})
    done = bridge.sync()
    assert (done.imported, done.strangers) == (48, 2)


def test_the_projects_own_tasks_can_be_the_pool(client, fake, tmp_path, table):
    tasks = [fake.add_task({"text": review(i), "more": i}) for i in range(48)]
    with create_study(str(tmp_path / "own.db"), client, refit=4, dev=0.25) as study:
        bridge = Bridge(study, client)
        assert bridge.sync().imported == 0
        for _ in range(8):
            task = fake.served()
            fake.annotate(task, mood(fake.tasks[task]["data"]["text"]))
        done = bridge.sync()
        assert done.told == 8
        assert len(study.state.dev) == 2
        for row, label in study.state.labels.items():
            assert label == mood(fake.tasks[tasks[row]]["data"]["text"])
        lines = (tmp_path / "own.tasks.jsonl").read_text().splitlines()
        assert json.loads(lines[5])["label_studio_task"] == tasks[5]
        fake.project["created_at"] = "2027-01-01"
        with pytest.raises(LabelStudioError, match="was made of the project 7-"):
            Bridge(study, client).sync()


def test_a_task_cannot_say_that_it_is_another(client, fake, tmp_path, table):
    tasks = [fake.add_task({"text": review(i)}) for i in range(12)]
    fake.tasks[tasks[3]]["data"] |= {"label_studio_task": tasks[5], "label_studio_project": "8-x"}
    with create_study(str(tmp_path / "own.db"), client) as study:
        fake.annotate(tasks[3], "good")
        fake.annotate(tasks[5], "bad")
        Bridge(study, client).sync()
        assert dict(study.state.labels) == {3: "good", 5: "bad"}


def test_a_project_without_tasks_or_with_odd_ones_makes_no_pool(client, fake, tmp_path):
    place = str(tmp_path / "s.db")
    with pytest.raises(Empty, match="--table"):
        create_study(place, client)
    fake.add_task({"text": "fine"})
    odd = fake.add_task({"title": "no text"})
    with pytest.raises(LabelStudioError, match=f"Task {odd} must have 'text'.*keys: title"):
        create_study(place, client)
    del fake.tasks[odd]
    (tmp_path / "s.tasks.jsonl").write_text("precious\n")
    with pytest.raises(StudyExists, match="holds other tasks"):
        create_study(place, client)
    assert (tmp_path / "s.tasks.jsonl").read_text() == "precious\n"


def test_the_models_label_is_shown_only_if_wanted_and_never_for_dev_rows(
    client, fake, tmp_path, table
):
    rows = gw.tables.Table(str(table), text="text")
    with create_study(str(tmp_path / "p.db"), client, table=rows, refit=4, dev=0.3) as study:
        bridge = Bridge(study, client, prefill=True)
        bridge.sync()
        assert all(p["result"] == [] for p in fake.predictions)
        answer(fake, 12)
        bridge.sync()
        shown = {row_of(fake, p["task"]) for p in fake.predictions if p["result"]}
        dev = {row for row in range(48) if study.state.settings.is_dev([row])[0]}
        assert shown
        assert not shown & dev
        assert shown | dev | set(study.state.labels) == set(range(48))


def test_following_waits_for_a_server_and_leaves_one_that_refuses(bridge, fake):
    fake.failures.extend([(500, {}, {})] * 4)
    passes = bridge.follow(0.001)
    assert isinstance(next(passes)[1], NotReached)
    assert next(passes)[0].imported == 48
    fake.failures.extend([(400, {"detail": "no"}, {})] * 2)
    assert "400: no" in str(next(passes)[1])
    with pytest.raises(LabelStudioError, match="400: no"):
        next(passes)


def test_an_order_of_nothing_is_refused(study, client):
    with pytest.raises(BadParameter, match="top must be at least 1, got 0"):
        Bridge(study, client, top=0)


def test_the_fake_serves_in_order_until_it_is_told_otherwise():
    fake = FakeLabelStudio()
    tasks = [fake.add_task({"text": str(i)}) for i in range(3)]
    assert fake.served() == tasks[0]
