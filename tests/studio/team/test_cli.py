"""`goalward team` and the logs, as a person and as a program use them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.errors import BadParameter
from goalward.studio.team import Team


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words, program=True):
        done = CliRunner().invoke(app, [*words, *(["--json"] if program else [])])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return json.loads(done.output) if program else done.output

    return call


def _joined(said, words="four words of mine"):
    team = Team.open("team.db")
    team.join(said["link"].partition("invite=")[2], words)
    session = team.sign_in(said["name"], words, "10.0.0.7, Firefox on Linux")
    team.close()
    return session


def test_a_team_from_the_first_link_to_the_last_removal(run):
    made = run("team", "create", "team.db", "ann", "--address", "https://labels.example/")
    assert made["link"].startswith("https://labels.example/join?invite=")
    _joined(made)
    _joined(run("team", "invite", "team.db", "bo"))
    _joined(run("team", "invite", "team.db", "cleo", "--role", "reviewer"))
    run("team", "invite", "team.db", "dan")
    said = run("team", "list", "team.db")
    assert {one["name"]: one["role"] for one in said["people"]} == {
        "ann": "owner",
        "bo": "annotator",
        "cleo": "reviewer",
    }
    assert [one["name"] for one in said["invited"]] == ["dan"]
    gw.Study.create("labels.db", pool=[[0.0], [1.0]], classes=["a", "b"]).close()
    run("team", "role", "team.db", "bo", "owner", "--study", "labels.db")
    words = run("team", "list", "team.db", program=False)
    assert "owner" in words
    run("team", "role", "team.db", "bo", "none", "--study", "labels.db")
    (session,) = run("team", "list", "team.db", "bo")["people"][0]["sessions"]
    assert session["place"] == "10.0.0.7, Firefox on Linux"
    assert "Firefox" in run("team", "list", "team.db", program=False)
    run("team", "revoke", "team.db", session["id"])
    run("team", "revoke", "team.db", said["invited"][0]["id"])
    assert run("team", "list", "team.db", "bo")["people"][0]["sessions"] == []
    assert "signed in" not in run("team", "list", "team.db", "bo", program=False)
    run("team", "remove", "team.db", "bo")
    assert len(run("team", "list", "team.db")["people"]) == 2
    with pytest.raises(BadParameter, match="the only owner"):
        run("team", "remove", "team.db", "ann")
    with pytest.raises(BadParameter, match="got 'none'"):
        run("team", "role", "team.db", "cleo", "none")


def test_what_happened_is_told_of_a_team_and_of_a_study(run):
    _joined(run("team", "create", "team.db", "ann"))
    came = [one for one in run("status", "team.db", "--log") if one["what"] == "signedin"]
    assert [one["who"] for one in came] == ["ann"]
    assert came[0]["at"].endswith("+00:00")
    words = run("status", "team.db", "--log", program=False)
    assert "founded" in words
    assert "scrypt" not in words
    with gw.Study.create("labels.db", pool=[[0.0], [1.0]], classes=["a", "b"]) as study:
        study.tell(0, "a", by="bo")
        study.undo(by="bo")
    said = run("status", "labels.db", "--log")
    assert [(one["what"], one["who"]) for one in said] == [("told", "bo"), ("undone", "bo")]
    assert "undone" in run("status", "labels.db", "--log", program=False)


def test_the_commands_of_the_page_about_accounts_run(run):
    page = Path(__file__).parents[3] / "docs/how-to/accounts.md"
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        for line in block.splitlines():
            words = line.partition("#")[0].split()
            assert words[0] == "goalward"
            said = run(*[word for word in words[1:] if word != "--json"])
            if words[2] in ("create", "invite"):
                _joined(said)
