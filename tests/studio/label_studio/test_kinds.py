"""Projects of several choices and of numbers, each kept in step with a study."""

import math

import polars as pl
import pytest

import goalward as gw
from goalward.errors import UnknownLabel, Unsupported
from goalward.studio.label_studio import Bridge, create_study
from tests.studio.label_studio.conftest import GOOD, mood
from tests.studio.label_studio.fake import CONFIG, NUMBER, SEVERAL, region

NAMES = ("good", "early", "odd")


def traits(text):
    """Return what holds of a review: any of three labels, or none."""
    number = int(text.split()[-1])
    odd = any(word in text for word in ("great", "dull"))
    return {
        name
        for name, holds in zip(NAMES, (mood(text) == "good", number < 12, odd), strict=True)
        if holds
    }


def price(text):
    """Return the number of a review: more for each good word."""
    return 2.5 + 3 * sum(word in GOOD for word in text.split())


def kept(labels):
    return tuple(name in labels for name in NAMES)


def several_said(text):
    chosen = [name for name in NAMES if name in traits(text)]
    # The editor writes no region where nothing is chosen.
    return region("traits", choices=chosen) if chosen else []


def number_said(text):
    return region("price", number=price(text))


SAYS = {"labels": several_said, "numbers": number_said}
TRUTH = {"labels": lambda text: kept(traits(text)), "numbers": price}


@pytest.fixture
def make(fake, client, table, tmp_path):
    """Studies of the fake project, which asks for labels or numbers."""
    made = []

    def study(kind, **options):
        fake.project["label_config"] = {"labels": SEVERAL, "numbers": NUMBER}[kind]
        rows = gw.tables.Table(str(table), text="text")
        options = {"refit": 4, "dev": 0.0, **options}
        made.append(create_study(str(tmp_path / f"{kind}.db"), client, table=rows, **options))
        return made[-1]

    yield study
    for one in made:
        one.close()


def answer(fake, kind, count):
    """Do what a person does: take what is served, and answer it."""
    said = {}
    for _ in range(count):
        task = fake.served()
        data = fake.tasks[task]["data"]
        fake.annotate(task, result=SAYS[kind](data["text"]))
        said[data["goalward_row"]] = TRUTH[kind](data["text"])
    return said


@pytest.mark.parametrize(
    ("kind", "names", "learner"),
    [("labels", NAMES, gw.MultiLabel), ("numbers", ("price",), gw.Ridge)],
)
def test_a_project_is_answered_in_the_order_of_its_study(make, client, fake, kind, names, learner):
    study = make(kind)
    assert (study.state.settings.kind, study.state.classes) == (kind, names)
    assert isinstance(study.state.settings.fitter(names), learner)
    bridge = Bridge(study, client)
    assert bridge.sync().imported == 48
    said = answer(fake, kind, 12)
    done = bridge.sync()
    assert (done.told, done.refused, done.withdrawn) == (12, (), 0)
    assert dict(study.state.labels) == said
    queue = study.state.ranking.queue
    assert fake.tasks[fake.served()]["data"]["goalward_row"] == queue[0]
    assert fake.project["model_version"] == done.version
    assert all(p["result"] == [] for p in fake.predictions)
    scores = {fake.tasks[p["task"]]["data"]["goalward_row"]: p["score"] for p in fake.predictions}
    assert sorted(scores, key=scores.get) == list(queue)
    events, writes = study.state.seq, len(fake.writes())
    assert not bridge.sync().changed
    assert not Bridge(study, client).sync().changed
    assert (study.state.seq, len(fake.writes())) == (events, writes)


def test_labels_are_exported_one_by_one_and_numbers_as_numbers(make, client, fake, tmp_path):
    for kind in SAYS:
        study = make(kind)
        fake.tasks.clear()
        fake.annotations.clear()
        bridge = Bridge(study, client)
        bridge.sync()
        answer(fake, kind, 8)
        bridge.sync()
        study.export(tmp_path / f"{kind}.csv")
        frame = pl.read_csv(tmp_path / f"{kind}.csv")
        assert frame.height == 8
        for line in frame.iter_rows(named=True):
            if kind == "numbers":
                assert line["price"] == price(line["text"])
            else:
                assert {name for name in NAMES if line[name] == "yes"} == traits(line["text"])
                assert {line[name] for name in NAMES} <= {"yes", "no"}


def test_nothing_chosen_is_none_of_them_and_a_skip_is_a_skip(make, client, fake):
    study = make("labels")
    bridge = Bridge(study, client)
    bridge.sync()
    first, second, third, fourth = sorted(fake.tasks)[:4]
    fake.annotate(first, result=[])
    fake.annotate(second, result=region("traits", choices=[]))
    fake.annotate(third, result=region("remark", text=["fine"]))
    fake.annotate(fourth, result=[], cancelled=True)
    done = bridge.sync()
    assert (done.told, done.skipped, done.refused) == (3, 1, ())
    none = (False, False, False)
    assert dict(study.state.labels) == {0: none, 1: none, 2: none}
    assert set(study.state.skipped) == {3}


@pytest.mark.parametrize(
    ("kind", "before", "after", "kept_as"),
    [
        ("labels", region("traits", choices=["good"]), [], (False, False, False)),
        ("labels", [], region("traits", choices=["odd", "good"]), (True, False, True)),
        ("numbers", region("price", number=3), region("price", number=3.25), 3.25),
        ("numbers", region("price", number=1), region("price", number=0), 0.0),
    ],
)
def test_changed_deleted_and_skipped_annotations_are_followed(
    make, client, fake, kind, before, after, kept_as
):
    study = make(kind)
    bridge = Bridge(study, client)
    bridge.sync()
    tasks = sorted(fake.tasks)[:3]
    numbers = [fake.annotate(task, result=before) for task in tasks]
    assert bridge.sync().told == 3
    fake.annotate(tasks[0], result=after, number=numbers[0])
    fake.delete(numbers[1])
    fake.annotate(tasks[2], result=before, number=numbers[2], cancelled=True)
    done = bridge.sync()
    assert (done.told, done.withdrawn, done.skipped) == (1, 1, 1)
    assert dict(study.state.labels) == {0: kept_as}
    assert set(study.state.skipped) == {2}


ODD_LABELS = [
    (region("traits", choices=["good", "ugly"]), "'ugly' is not one of the labels"),
    (region("traits", choices=["odd one"]), "'odd one' is not one of the labels"),
    (region("traits", choices="good"), "'good' instead of a list of choices"),
    (region("traits", choices=None), "None instead of a list of choices"),
    (region("traits", choices=[["good"]]), "\"['good']\" is not one of the labels"),
    (region("traits", choices=[True]), "'True' is not one of the labels"),
    (region("traits", number=3), "None instead of a list of choices"),
    ({"traits": ["good"]}, "its result is no list"),
    ("good", "its result is no list"),
]
ODD_NUMBERS = [
    (region("price", number="3"), "'3' is not a finite number"),
    (region("price", number=True), "True is not a finite number"),
    (region("price", number=None), "None is not a finite number"),
    (region("price", number=[3]), "[3] is not a finite number"),
    (region("price", number=math.nan), "nan is not a finite number"),
    (region("price", number=-math.inf), "-inf is not a finite number"),
    (region("price", number=10**400), "1000000"),
    (region("price", choices=["3"]), "None is not a finite number"),
    (region("price", number=1) + region("price", number=2), "2 numbers instead of one"),
    (region("other", number=1), "0 numbers instead of one"),
    ([], "0 numbers instead of one"),
    ({"price": 3}, "its result is no list"),
]


@pytest.mark.parametrize(
    ("kind", "odd", "fits"),
    [
        ("labels", ODD_LABELS, region("traits", choices=["early", "early"])),
        ("numbers", ODD_NUMBERS, region("price", number=-4)),
    ],
)
def test_what_does_not_fit_is_reported_and_nothing_of_it_is_told(
    make, client, fake, kind, odd, fits
):
    study = make(kind)
    bridge = Bridge(study, client)
    bridge.sync()
    tasks = sorted(fake.tasks)
    for task, (result, _) in zip(tasks, odd, strict=False):
        fake.annotate(task, result=result)
    fake.annotate(tasks[-1], result=fits)
    done = bridge.sync()
    assert done.told == 1
    assert [one.task for one in done.refused] == tasks[: len(odd)]
    for refused, (_, reason) in zip(done.refused, odd, strict=True):
        assert reason in refused.reason
        assert len(refused.reason) < 150
    assert dict(study.state.labels) == {47: (False, True, False) if kind == "labels" else -4.0}
    assert len(bridge.sync().refused) == len(odd)


@pytest.mark.parametrize("kind", SAYS)
def test_what_the_model_believes_is_shown_if_wanted_and_never_for_dev_rows(
    make, client, fake, kind
):
    study = make(kind, dev=0.3)
    bridge = Bridge(study, client, prefill=True)
    bridge.sync()
    assert all(p["result"] == [] for p in fake.predictions)
    answer(fake, kind, 24)
    bridge.sync()
    dev = {row for row in range(48) if study.state.settings.is_dev([row])[0]}
    shown, right = 0, 0
    for p in fake.predictions:
        data = fake.tasks[p["task"]]["data"]
        if data["goalward_row"] in dev:
            assert p["result"] == []
            continue
        shown += 1
        said = bridge.config.answer(p["result"], study.state.classes)
        if kind == "labels":
            right += ("good" in said) == ("good" in traits(data["text"]))
        else:
            right += abs(said - price(data["text"])) < 2
            assert set(p["result"][0]["value"]) == {"number"}
    assert shown > 10
    assert right / shown > 0.8


def test_new_choices_are_refused_or_taken_as_labels_that_nobody_was_asked(make, client, fake):
    study = make("labels")
    bridge = Bridge(study, client)
    bridge.sync()
    first, second, third = sorted(fake.tasks)[:3]
    fake.annotate(first, result=region("traits", choices=["good"]))
    number = fake.annotate(second, result=[])
    bridge.sync()
    fake.project["label_config"] = SEVERAL.replace("</Choices>", '<Choice value="long"/></Choices>')
    with pytest.raises(
        UnknownLabel, match=r"Only Label Studio has \['long'\], only the study none"
    ):
        Bridge(study, client)
    again = Bridge(study, client, add_classes=True)
    assert study.state.classes == (*NAMES, "long")
    # Whoever answered before the choice was there did not say no to it.
    assert again.sync().told == 0
    fake.annotate(second, result=region("traits", choices=["long"]), number=number)
    fake.annotate(third, result=[])
    assert again.sync().told == 2
    assert dict(study.state.labels) == {
        0: (True, False, False),
        1: (False, False, False, True),
        2: (False, False, False, False),
    }
    fake.project["label_config"] = SEVERAL
    with pytest.raises(UnknownLabel, match=r"only the study \['long'\]"):
        Bridge(study, client)


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("labels", CONFIG, "multiple.*Choices 'mood', which asks for one class"),
        ("labels", NUMBER, "multiple.*Number 'price', which asks for one number"),
        ("numbers", CONFIG, "a Number tag.*Choices 'mood', which asks for one class"),
        ("numbers", SEVERAL, "needs a Number tag.*asks for any of some labels"),
        (
            "numbers",
            NUMBER.replace("</View>", '<Number name="tax" toName="words"/></View>'),
            "'price', 'tax'. Name one with --control",
        ),
    ],
)
def test_a_config_that_does_not_fit_the_study_is_refused_before_anything_is_written(
    make, client, fake, kind, config, reason
):
    study = make(kind)
    events = study.state.seq
    fake.project["label_config"] = config
    with pytest.raises(Unsupported, match=reason):
        Bridge(study, client)
    assert fake.writes() == []
    assert study.state.seq == events


@pytest.mark.parametrize("config", [SEVERAL, NUMBER])
def test_a_study_of_classes_takes_one_class(study, client, fake, config):
    fake.project["label_config"] = config
    with pytest.raises(Unsupported, match='needs a Choices tag with choice="single"'):
        Bridge(study, client)


def test_a_study_made_elsewhere_meets_the_control_of_its_kind(client, fake, table, tmp_path):
    """Beside choices, and whatever the number is called there."""
    number = '<Number name="cost" toName="words"/></View>'
    fake.project["label_config"] = CONFIG.replace("</View>", number)
    rows = gw.tables.Table(str(table), text="text")
    options = {"pool": rows, "classes": ["price"], "learner": gw.Ridge(), "refit": 4, "dev": 0.0}
    with gw.Study.create(tmp_path / "made.db", **options) as study:
        bridge = Bridge(study, client, prefill=True)
        bridge.sync()
        study.tell(40, 7.0, by="page")
        for task in sorted(fake.tasks)[:8]:
            text = fake.tasks[task]["data"]["text"]
            said = region("mood", choices=["good"]) + region("cost", number=price(text))
            fake.annotate(task, result=said)
        assert bridge.sync().told == 8
        assert study.state.labels[40] == 7.0
        shown = [one["value"]["number"] for p in fake.predictions for one in p["result"]]
        assert len(shown) == 39
        assert all(one == float(f"{one:.6g}") for one in shown)


def test_the_control_that_is_named_says_what_is_asked(client, fake, table, tmp_path):
    fake.project["label_config"] = CONFIG.replace("</View>", NUMBER[NUMBER.index("<Number") :])
    rows = gw.tables.Table(str(table), text="text")
    place = str(tmp_path / "named.db")
    with create_study(place, client, table=rows, control="price") as study:
        assert study.state.classes == ("price",)
        assert study.state.settings.kind == "numbers"


def test_of_two_annotators_the_later_counts_and_both_are_kept(make, client, fake):
    fake.project["maximum_annotations"] = 2
    study = make("labels")
    assert study.state.settings.answers == 2
    bridge = Bridge(study, client)
    bridge.sync()
    task = sorted(fake.tasks)[0]
    fake.annotate(task, result=region("traits", choices=["good"]), user=2)
    fake.annotate(task, result=[], user=1)
    bridge.sync()
    assert study.state.labels[0] == (False, False, False)
    said = {by.split("/")[-1]: one.label for by, one in study.state.standings[0].items()}
    assert said == {"ann@example.org": (False,) * 3, "bo@example.org": (True, False, False)}
