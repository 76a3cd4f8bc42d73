"""One server, and patience with it."""

from contextlib import suppress
from functools import partial

import pytest

from goalward.errors import BadParameter, GoalwardError, LabelStudioError, NotReached
from goalward.studio.label_studio import Bridge, Client
from tests.studio.label_studio.fake import TOKEN, jwt

FAILED = (500, {"detail": "broken"}, {})
BUSY = (503, {"detail": "starting"}, {})


def test_a_wrong_token_is_said_and_not_shown(url, connect):
    client = connect(url, "wrong-secret")
    with pytest.raises(LabelStudioError, match="token was refused") as caught:
        client.project()
    assert "wrong-secret" not in str(caught.value)


def test_a_project_that_is_not_there_is_said(url, connect):
    with pytest.raises(LabelStudioError, match="--project"):
        connect(url, project=8).project()


def test_a_personal_access_token_is_exchanged_and_renewed(url, fake, connect):
    client = connect(url, jwt("refresh"))
    assert client.project()["id"] == 7
    assert fake.issued == 1
    fake.access = "another"
    assert client.project()["id"] == 7
    assert fake.issued == 2
    with pytest.raises(LabelStudioError, match="token was refused"):
        connect(url, jwt("expired")).project()


def test_failures_are_waited_out_ever_longer(client, fake, waits):
    fake.failures.extend([FAILED, BUSY, FAILED])
    assert client.project()["id"] == 7
    assert waits == [0.5, 1.0, 2.0]
    fake.failures.extend([FAILED] * 4)
    with pytest.raises(NotReached, match="500: broken"):
        client.project()


def test_what_adds_things_is_repeated_only_where_it_was_not_begun(client, fake):
    fake.failures.append(BUSY)
    client.add_tasks([{"text": "one"}])
    assert len(fake.tasks) == 1
    fake.failures.append(FAILED)
    with pytest.raises(NotReached):
        client.add_tasks([{"text": "two"}])
    assert fake.log.count("POST /api/projects/7/import") == 3


def test_nobody_there_is_not_reached(connect):
    client = connect("http://127.0.0.1:9")
    with pytest.raises(NotReached, match="did not answer"):
        client.project()


def test_redirects_are_not_followed(client, fake):
    fake.failures.append((302, "", {"Location": "http://127.0.0.1:9/steal"}))
    with pytest.raises(LabelStudioError, match="not followed"):
        client.project()
    assert len(fake.log) == 1


def test_what_is_not_label_studio_is_said(client, fake):
    fake.failures.append((200, "<html>", {}))
    with pytest.raises(LabelStudioError, match="not JSON"):
        client.project()
    fake.failures.append((200, ["no project"], {}))
    with pytest.raises(LabelStudioError, match=r"did not answer .* as Label Studio"):
        client.project()


def test_all_pages_are_read_and_none_after_the_last(client, fake):
    fake.page_limit = 4
    for i in range(12):
        fake.add_task({"text": str(i)})
    assert [task["data"]["text"] for task in client.tasks()] == [str(i) for i in range(12)]


def test_predictions_that_were_left_out_in_silence_are_noticed(client, fake):
    fake.lose_predictions = True
    task = fake.add_task({"text": "a"})
    with pytest.raises(LabelStudioError, match="stored 0 of 1"):
        client.add_predictions([{"task": task, "score": 0.0, "result": []}], "v")


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "file:///etc/passwd", "http://", "http://me:secret@host", "host:8080"]
)
def test_only_addresses_of_servers_are_taken(url):
    with pytest.raises(BadParameter, match="the address of Label Studio"):
        Client(url, TOKEN, 7)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "é"])
def test_only_tokens_are_taken(token):
    with pytest.raises(BadParameter, match="token"):
        Client("http://127.0.0.1:8080", token, 7)


def places(value, way=()):
    """Yield the way to everything in an answer; of several tasks or users the first stands for all."""
    yield way
    parts = value.items() if isinstance(value, dict) else ()
    for key, part in [*enumerate(value[:1])] if isinstance(value, list) else parts:
        yield from places(part, (*way, key))


def changed(value, way, odd):
    """Return an answer with something else at the end of a way."""
    if not way:
        return odd
    copy = value.copy()
    if len(way) == 1 and odd is GONE and isinstance(copy, dict):
        del copy[way[0]]
    else:
        copy[way[0]] = changed(copy[way[0]], way[1:], odd)
    return copy


GONE = "gone"
ODD = [None, "x", -1, 10**30, 1.5, [], {}, [None], [[[]]], {"id": None}, GONE]
ROUTES = ["projects/7", "tasks", "users", "projects/7/model-versions"]


@pytest.mark.attack("odd answers of Label Studio")
@pytest.mark.parametrize("route", ROUTES)
def test_whatever_a_server_answers_no_traceback_follows(
    study, client, fake, monkeypatch, route, tried
):
    Bridge(study, client).sync()
    fake.annotate(min(fake.tasks), "good")
    query = {"page": 1, "page_size": 100, "fields": "all"}
    said = fake.answer("GET", f"/api/{route}", query, None)[1]
    tries = [(way, odd) for way in places(said) for odd in ODD]
    honest = fake.answer
    for way, odd in tries:

        def answer(method, path, query, body, way=way, odd=odd):
            code, said = honest(method, path, query, body)
            if method == "GET" and path.strip("/") == f"api/{route}":
                with suppress(LookupError):  # the list without annotations
                    said = changed(said, way, odd)
            return code, said

        monkeypatch.setattr(fake, "answer", answer)
        with suppress(GoalwardError):
            Bridge(study, client).sync()
    tried(len(tries))


@pytest.mark.attack("odd answers of Label Studio")
def test_tasks_that_never_end_are_left(client, fake, monkeypatch, tried):
    task = fake.tasks[fake.add_task({"text": "again"})]
    again = {"total": 10**6, "total_annotations": 0, "tasks": [task]}
    more = lambda page: {**again, "total": page + 1, "tasks": [{**task, "id": page}]}
    asked = [0]

    def answer(method, path, query, body, endless=lambda page: again):
        asked[0] += 1
        assert asked[0] < 100
        return 200, endless(int(query["page"]))

    monkeypatch.setattr(fake, "answer", answer)
    with pytest.raises(LabelStudioError, match="twice"):
        list(client.tasks())
    # One task more with every page: those that came meanwhile are for the next pass.
    monkeypatch.setattr(fake, "answer", partial(answer, endless=more))
    assert len(list(client.tasks())) == 2
    nested = "[" * 100_000 + "]" * 100_000
    fake.failures.append((200, nested, {}))
    with pytest.raises(LabelStudioError, match="JSON"):
        client.project()
    tried(3)
