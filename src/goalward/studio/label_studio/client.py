"""The part of Label Studio's interface that a study needs, and patience with its server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Annotated, Any, NotRequired, Self
from urllib.parse import urlsplit

from goalward.core.extras import needing
from goalward.errors import BadParameter, LabelStudioError, NotReached

with needing("Label Studio"):
    import httpx
    from pydantic import Field, TypeAdapter, ValidationError
    from typing_extensions import TypedDict  # pydantic takes Python's own from 3.12 on

__all__ = ["Client"]

NOT_BEGUN = frozenset({429, 503})
"""Answers that say a request was not begun, so that even one that adds things may be repeated."""
RETRIED = NOT_BEGUN | {500, 502, 504}
WAITS = (0.5, 1.0, 2.0, None)
"""Seconds after each try."""
TIMEOUT = 60.0
LONGEST_DETAIL = 500
BATCH = 500
"""Tasks or predictions of one request; 500 of either take about a second."""
Number = Annotated[int, Field(ge=0, lt=2**63)]


class User(TypedDict):
    """Somebody, as the server tells it; of this and the others what is read is checked."""

    id: Number
    email: NotRequired[str | None]


class Annotation(TypedDict):
    """What somebody said of a task."""

    id: Number
    completed_by: NotRequired[Number | User | None]
    updated_at: NotRequired[Any]
    was_cancelled: NotRequired[Any]
    result: NotRequired[Any]


class Task(TypedDict):
    """A task and what it shows."""

    id: Number
    data: dict[str, Any]
    updated_at: NotRequired[Any]


class Answered(Task):
    """A task with what was said of it."""

    annotations: list[Annotation]


class Page(TypedDict):
    """Some of so many tasks."""

    tasks: list[Task]
    total: Annotated[int, Field(ge=0, le=10**7)]
    total_annotations: Number


class AnsweredPage(Page):
    """Some of so many answered ones."""

    tasks: list[Answered]  # type: ignore[misc]


class Project(TypedDict):
    """A project's settings."""

    id: Number
    created_at: str
    label_config: str
    maximum_annotations: NotRequired[int | None]
    model_version: NotRequired[Any]
    sampling: NotRequired[Any]


class View(TypedDict):
    """A tab of the Data Manager."""

    data: NotRequired[dict[str, Any] | None]


class Client:
    """A project of a Label Studio server; no other is spoken to, since redirects are not followed.

    Parameters
    ----------
    url
        Where Label Studio is: http://127.0.0.1:8080, https://host/label-studio.
    token
        A legacy token, or a personal access token (a JWT, exchanged for short-lived ones).
    project
        The project's number, as in its address.
    sleep
        How it waits, in seconds.
    """

    def __init__(
        self, url: str, token: str, project: int, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise BadParameter(
                f"url={url!r}; where Label Studio is was expected: http://127.0.0.1:8080, say, without a "
                "name or password in it."
            )
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise BadParameter(
                "The token is empty or holds spaces; one from Account & Settings in Label Studio was "
                "expected."
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.number = int(project)
        self._home = f"/api/projects/{self.number}"
        self._sleep = sleep
        local = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        # A proxy of the environment is for other hosts than this one.
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT, trust_env=not local)
        # Legacy tokens are hexadecimal, and JWTs three parts with dots between.
        self._personal = token if token.count(".") == 2 else None
        if self._personal is None:
            self._http.headers["Authorization"] = f"Token {token}"

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def project(self) -> Project:
        """Return the project's settings."""
        return self._call("GET", f"{self._home}/", Project)  # type: ignore[no-any-return]

    def set_project(self, **values: Any) -> None:
        """Change settings of the project."""
        self._call("PATCH", f"{self._home}/", body=values)

    def mark(self) -> tuple[Any, ...]:
        """Return what changes whenever a task or an annotation is added, changed or removed.

        An annotation that is changed or deleted touches its task, so the newest task and the
        totals tell, for one small request. The first of them is the number of tasks.
        """
        page = self._page(1, 1, query=json.dumps({"ordering": ["-tasks:updated_at"]}))
        newest = page["tasks"][0] if page["tasks"] else {}
        totals = page["total"], page["total_annotations"]
        return *totals, newest.get("id"), newest.get("updated_at")

    def tasks(self, **params: Any) -> Iterator[Any]:
        """Return the tasks with their data, in the order of their numbers."""
        seen: set[int] = set()
        total = None
        for number in count(1):
            page = self._page(number, BATCH, **params)
            # Tasks that come meanwhile are for the next pass: a list may grow as fast as it is read.
            total = page["total"] if total is None else total
            yield from page["tasks"]
            before = len(seen)
            seen |= {task["id"] for task in page["tasks"]}
            # A page after the last is an error there. Servers may give smaller pages than asked.
            if not page["tasks"] or len(seen) >= total:
                return
            if len(seen) == before:
                raise LabelStudioError(
                    f"{self.url} listed the same tasks twice and {total} in all; others were expected. "
                    "Try again; look into its log if that does not help."
                )

    def answered(self) -> Iterator[dict[str, Any]]:
        """Return the tasks that have annotations or skips, with them."""
        items = [
            {"filter": f"filter:tasks:{name}", "operator": "greater", "type": "Number", "value": 0}
            for name in ("total_annotations", "cancelled_annotations")
        ]
        query = json.dumps({"filters": {"conjunction": "or", "items": items}})
        return self.tasks(query=query, fields="all")

    def add_tasks(self, data: Sequence[dict[str, Any]]) -> None:
        """Add tasks."""
        for first in range(0, len(data), BATCH):
            body = [{"data": one} for one in data[first : first + BATCH]]
            self._call("POST", f"{self._home}/import", body=body)

    def add_predictions(self, predictions: Sequence[dict[str, Any]]) -> None:
        """Add predictions; `LabelStudioError` unless every one is stored."""
        for first in range(0, len(predictions), BATCH):
            body = list(predictions[first : first + BATCH])
            done = self._call("POST", f"{self._home}/import/predictions", body=body)
            # Some versions log predictions they find invalid, leave them out, and answer 201.
            created = done.get("created") if isinstance(done, dict) else None
            if created != len(body):
                raise LabelStudioError(
                    f"{self.url} stored {created} of {len(body)} predictions; all were expected. "
                    "Look into its log for the reason."
                )

    def versions(self) -> list[str]:
        """Return the model versions that predictions of the project have."""
        listed = list[str] | dict[str, Any]
        return list(self._call("GET", f"{self._home}/model-versions/", listed))

    def remove_version(self, version: str) -> None:
        """Delete the predictions of a model version."""
        self._call("DELETE", f"{self._home}/model-versions/", body={"model_version": version})

    def emails(self) -> dict[int, str]:
        """Return user -> email of everybody the token may see."""
        users = self._call("GET", "/api/users", list[User] | dict[str, Any])
        if isinstance(users, dict):
            users = self._known(list[User], users.get("results", []), "GET /api/users")
        return {user["id"]: user["email"] for user in users if user.get("email")}

    def add_view(self, title: str, ordering: str) -> None:
        """Add a tab to the Data Manager unless there is one of that title."""
        views = self._call("GET", "/api/dm/views", list[View], params={"project": self.number})
        if all((view.get("data") or {}).get("title") != title for view in views):
            data = {"title": title, "ordering": [ordering]}
            self._call("POST", "/api/dm/views", body={"project": self.number, "data": data})

    def _page(self, number: int, size: int, **params: Any) -> Any:
        asked = {"project": self.number, "page": number, "page_size": size, "resolve_uri": "false"}
        kind = AnsweredPage if "fields" in params else Page
        return self._call("GET", "/api/tasks", kind, params={**asked, **params})

    def _call(
        self, method: str, path: str, kind: Any = Any, *, params: Any = None, body: Any = None
    ) -> Any:
        """Return what the server answers, as data of a kind."""
        if self._personal is not None and "Authorization" not in self._http.headers:
            self._renew()
        answer = self._sent(method, path, params, body)
        if answer.status_code == 401 and self._personal is not None:
            # Access tokens live for minutes.
            self._renew()
            answer = self._sent(method, path, params, body)
        return self._known(kind, self._read(answer), f"{method} {path}")

    def _known(self, kind: Any, said: Any, what: str) -> Any:
        try:
            return TypeAdapter(kind).validate_python(said)
        except ValidationError as error:
            first = error.errors()[0]
            raise LabelStudioError(
                f"{self.url} answered {what} with something that is not known here "
                f"({'.'.join(map(str, first['loc']))}: {first['msg']}); Label Studio 1.x was expected. "
                "Check --url, or upgrade it, or goalward."
            ) from error

    def _renew(self) -> None:
        self._http.headers.pop("Authorization", None)
        answer = self._read(
            self._sent("POST", "/api/token/refresh", None, {"refresh": self._personal})
        )
        access = answer.get("access") if isinstance(answer, dict) else None
        if not access:
            raise LabelStudioError(
                f"{self.url} gave no access token for the personal access token; one was expected. Make "
                "a new token in Account & Settings."
            )
        self._http.headers["Authorization"] = f"Bearer {access}"

    def _sent(self, method: str, path: str, params: Any, body: Any) -> Any:
        adds = method == "POST"
        for wait in WAITS:
            try:
                answer = self._http.request(method, path, params=params, json=body)
            except httpx.TransportError as error:
                begun = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
                if wait is None or (adds and begun):
                    raise NotReached(
                        f"{self.url} did not answer {method} {path} ({type(error).__name__}: {error}); "
                        "a Label Studio server was expected there. Check --url and that it runs."
                    ) from error
            else:
                if wait is None or answer.status_code not in (NOT_BEGUN if adds else RETRIED):
                    return answer
            self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _read(self, answer: Any) -> Any:
        code, path = answer.status_code, answer.request.url.path
        what = f"{answer.request.method} {path}"
        if code < 300:
            try:
                return answer.json() if answer.content else None
            except (ValueError, RecursionError) as error:
                raise LabelStudioError(
                    f"{self.url} answered {what} with something that is not JSON; a Label Studio server "
                    "was expected. Check --url."
                ) from error
        if code < 400:
            raise LabelStudioError(
                f"{self.url} sends {what} elsewhere ({code} to {answer.headers.get('location', '?')!r}), "
                "which is not followed. Give that address as --url if it is right."
            )
        why = f"({code}: {_detail(answer)})"
        if code >= 500:
            raise NotReached(f"{self.url} failed at {what} {why}.")
        if code in (401, 403):
            raise LabelStudioError(
                f"{self.url} refused the token for {what} {why}. Check the token: a legacy one may be "
                "switched off for the organization; a personal access token works then. Its user must "
                "be a member of the project."
            )
        if code == 404:
            raise LabelStudioError(
                f"{self.url} has no {path} {why}. Check --url and --project, and that the token's user "
                "can see the project."
            )
        raise LabelStudioError(f"{self.url} refused {what} {why}.")


def _detail(answer: Any) -> str:
    """Return what a server says went wrong, in short."""
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        return str(answer.reason_phrase)
    if isinstance(body, dict):
        body = body.get("validation_errors") or body.get("detail") or body
    return str(body)[:LONGEST_DETAIL]
