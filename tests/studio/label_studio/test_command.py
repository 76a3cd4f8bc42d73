"""`goalward label-studio`, end to end against the fake."""

import json
import threading

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadParameter, LabelStudioError, Unsupported
from tests.studio.label_studio.conftest import mood
from tests.studio.label_studio.fake import CONFIG, NUMBER, SEVERAL, TOKEN, region

RUN = CliRunner()


@pytest.fixture
def run(url, table, monkeypatch, tmp_path):
    monkeypatch.setenv("LABEL_STUDIO_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)

    def command(*more):
        arguments = ["label-studio", "--url", url, "--project", "7", *more]
        done = RUN.invoke(app, arguments)
        if isinstance(done.exception, Exception):
            raise done.exception
        assert TOKEN not in done.output
        return done.stdout

    return command


def test_one_pass_from_a_table_and_another_that_changes_nothing(run, table, fake):
    options = ["--table", str(table), "--text", "text", "--once", "--refit", "4"]
    assert "48 imported, 48 tasks ordered as goalward-0000" in run(*options).replace("\n", " ")
    assert "nothing new" in run(*options)
    for _ in range(8):
        task = fake.served()
        fake.annotate(task, mood(fake.tasks[task]["data"]["text"]))
    odd = fake.annotate(fake.served(), "[bold]ugly\x1b[2J")
    said = run(*options)
    assert "8 told" in said
    assert f"task {fake.annotations[odd]['task']}" in said
    assert "\x1b" not in said
    done = json.loads(run(*options, "--json"))
    assert (done["labels"], done["told"], len(done["refused"])) == (8, 0, 1)
    with gw.Study.open(table.with_suffix(".labels.db")) as study:
        assert len(study.state.labels) == 8


def test_without_a_table_the_projects_tasks_are_the_pool(run, fake, tmp_path):
    for i in range(12):
        fake.add_task({"text": f"film {i}"})
    done = json.loads(run("--once", "--json"))
    assert (done["imported"], done["pushed"]) == (0, 12)
    assert (tmp_path / "label-studio-7.labels.db").is_file()
    assert json.loads(run("--once", "--json"))["pushed"] == 0


def test_it_follows_until_it_is_refused(run, fake, table):
    """Two refusals in a row end it."""

    def refuse():
        while not fake.project["model_version"]:
            threading.Event().wait(0.01)
        fake.failures.extend([(400, {"detail": "enough"}, {})] * 2)

    refusing = threading.Thread(target=refuse)
    refusing.start()
    with pytest.raises(LabelStudioError, match="enough"):
        run("--table", str(table), "--text", "text", "--poll", "0.1")
    refusing.join()


def test_secrets_come_from_the_environment(run, monkeypatch):
    monkeypatch.delenv("LABEL_STUDIO_TOKEN")
    with pytest.raises(BadParameter, match="LABEL_STUDIO_TOKEN"):
        run("--once")
    with pytest.raises(BadParameter, match="NO_SUCH"):
        run("--once", "--token-env", "NO_SUCH")


def test_a_config_that_cannot_be_used_leaves_no_study(run, fake, table):
    fake.project["label_config"] = '<View><Text name="t" value="$text"/></View>'
    with pytest.raises(Unsupported, match="must have a Choices"):
        run("--table", str(table), "--text", "text", "--once")
    assert not table.with_suffix(".labels.db").exists()


@pytest.mark.parametrize(
    ("config", "said", "kind", "kept"),
    [
        (SEVERAL, region("traits", choices=["odd"]), "labels", (False, False, True)),
        (NUMBER, region("price", number=2.5), "numbers", 2.5),
    ],
)
def test_the_projects_control_says_what_an_answer_is(run, table, fake, config, said, kind, kept):
    fake.project["label_config"] = config
    options = ["--table", str(table), "--text", "text", "--once"]
    run(*options)
    fake.annotate(min(fake.tasks), result=said)
    assert json.loads(run(*options, "--json"))["told"] == 1
    with gw.Study.open(table.with_suffix(".labels.db")) as study:
        assert study.state.settings.kind == kind
        assert dict(study.state.labels) == {0: kept}
    fake.project["label_config"] = CONFIG
    with pytest.raises(Unsupported, match="which asks for one class"):
        run(*options)
