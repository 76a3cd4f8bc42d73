"""The part of Label Studio's HTTP interface that a study needs."""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Annotated, Any, NotRequired, Self
from urllib.parse import urlsplit

from goalward.core.arguments import needing
from goalward.errors import BadParameter, LabelStudioError, NotReached

with needing("Label Studio"):
    import httpx
    from pydantic import Field, TypeAdapter, ValidationError
    from typing_extensions import TypedDict  # pydantic takes Python's own from 3.12 on


NOT_BEGUN = frozenset({429, 503})
"""Status codes of requests that were not begun: even one that adds things may be repeated."""
RETRIED = NOT_BEGUN | {500, 502, 504}
WAITS = (0.5, 1.0, 2.0, None)
"""Seconds to wait after each try."""
TIMEOUT = 60.0
LONGEST_DETAIL = 500
BATCH = 500
"""Tasks or predictions of one request; 500 of either take about a second."""
TOKEN_HINT = (
    "The token was refused: check it. A legacy token may be switched off for the organization; use a "
    "personal access token then. Its user must be a member of the project."
)
HINTS = {
    401: TOKEN_HINT,
    403: TOKEN_HINT,
    404: "Check --url and --project, and that the token's user can see the project.",
}
Number = Annotated[int, Field(ge=0, lt=2**63)]

# Of what the server answers, the fields that are read; pydantic checks them.


class _User(TypedDict):
    id: Number
    email: NotRequired[str | None]


class _Annotation(TypedDict):
    id: Number
    completed_by: NotRequired[Number | _User | None]
    updated_at: NotRequired[Any]
    was_cancelled: NotRequired[Any]
    result: NotRequired[Any]


class _Task(TypedDict):
    id: Number
    data: dict[str, Any]
    updated_at: NotRequired[Any]


class _AnsweredTask(_Task):
    annotations: list[_Annotation]


class _Page(TypedDict):
    tasks: list[_Task]
    total: Annotated[int, Field(ge=0, le=10**7)]
    total_annotations: Number


class _AnsweredPage(_Page):
    tasks: list[_AnsweredTask]  # type: ignore[misc]


class _Project(TypedDict):
    id: Number
    created_at: str
    label_config: str
    maximum_annotations: NotRequired[int | None]
    model_version: NotRequired[Any]
    sampling: NotRequired[Any]


class _Users(TypedDict):
    results: list[_User]


class Client:
    """A project of a Label Studio server, by a legacy or a personal access token (a JWT)."""

    def __init__(self, url: str, token: str, project: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise BadParameter(
                "url must be the address of Label Studio without a name or password, got "
                f"{url!r}. Write http://127.0.0.1:8080, say."
            )
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise BadParameter(
                "The token must be ASCII without spaces. Copy one from Label Studio's Account & Settings."
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.number = int(project)
        self._home = f"/api/projects/{self.number}"
        local = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        # A proxy of the environment is for other hosts than this one.
        self._http = httpx.Client(base_url=self.url, timeout=TIMEOUT, trust_env=not local)
        # Legacy tokens are hexadecimal, and JWTs three parts with dots between.
        self._personal = token if token.count(".") == 2 else None
        if self._personal is None:
            self._http.headers["Authorization"] = f"Token {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def project(self) -> Any:
        return self._call("GET", f"{self._home}/", _Project)

    def set_project(self, **values: Any) -> None:
        self._call("PATCH", f"{self._home}/", body=values)

    def mark(self) -> tuple[Any, ...]:
        """Return a value that changes with any task or annotation; its first part counts the tasks."""
        page = self._page(1, 1, query=json.dumps({"ordering": ["-tasks:updated_at"]}))
        newest = page["tasks"][0] if page["tasks"] else {}
        totals = page["total"], page["total_annotations"]
        return *totals, newest.get("id"), newest.get("updated_at")

    def tasks(self, **params: Any) -> Iterator[Any]:
        """Yield the tasks with their data, in the order of their numbers."""
        seen: set[int] = set()
        total = None
        for number in count(1):
            page = self._page(number, BATCH, **params)
            # Tasks added meanwhile wait for the next pass: a list may grow as fast as it is read.
            total = page["total"] if total is None else total
            yield from page["tasks"]
            before = len(seen)
            seen |= {task["id"] for task in page["tasks"]}
            # A page after the last is an error there. Servers may give smaller pages than asked.
            if not page["tasks"] or len(seen) >= total:
                return
            if len(seen) == before:
                raise LabelStudioError(
                    f"{self.url} listed the same tasks twice, of {total} in all. Look into its log."
                )

    def answered(self) -> Iterator[Any]:
        """Yield the tasks that have annotations or skips, with them."""
        items = [
            {"filter": f"filter:tasks:{name}", "operator": "greater", "type": "Number", "value": 0}
            for name in ("total_annotations", "cancelled_annotations")
        ]
        query = json.dumps({"filters": {"conjunction": "or", "items": items}})
        return self.tasks(query=query, fields="all")

    def add_tasks(self, data: Sequence[dict[str, Any]]) -> None:
        for first in range(0, len(data), BATCH):
            body = [{"data": fields} for fields in data[first : first + BATCH]]
            self._call("POST", f"{self._home}/import", body=body)

    def add_predictions(self, predictions: Sequence[dict[str, Any]], version: str) -> None:
        """Add predictions of a model version; `LabelStudioError` unless every one is stored."""
        for first in range(0, len(predictions), BATCH):
            lines = predictions[first : first + BATCH]
            body = [{**line, "model_version": version} for line in lines]
            reply = self._call("POST", f"{self._home}/import/predictions", body=body)
            # Some versions log predictions they find invalid, leave them out, and answer 201.
            created = reply.get("created") if isinstance(reply, dict) else None
            if created != len(body):
                raise LabelStudioError(
                    f"{self.url} stored {created} of {len(body)} predictions. Look into its log."
                )

    def versions(self) -> list[str]:
        kind = list[str] | dict[str, Any]
        return list(self._call("GET", f"{self._home}/model-versions/", kind))

    def remove_version(self, version: str) -> None:
        self._call("DELETE", f"{self._home}/model-versions/", body={"model_version": version})

    def emails(self) -> dict[int, str]:
        """Return user -> email of everybody the token may see."""
        users = self._call("GET", "/api/users", list[_User] | _Users)
        users = users["results"] if isinstance(users, dict) else users
        return {user["id"]: user["email"] for user in users if user.get("email")}

    def _page(self, number: int, size: int, **params: Any) -> Any:
        params |= {"project": self.number, "page": number, "page_size": size}
        params["resolve_uri"] = "false"
        kind = _AnsweredPage if "fields" in params else _Page
        return self._call("GET", "/api/tasks", kind, params=params)

    def _call(
        self, method: str, path: str, kind: Any = Any, *, params: Any = None, body: Any = None
    ) -> Any:
        """Return the server's reply, validated as data of a kind."""
        if self._personal is not None and "Authorization" not in self._http.headers:
            self._renew()
        response = self._send(method, path, params, body)
        if response.status_code == 401 and self._personal is not None:
            # Access tokens live for minutes.
            self._renew()
            response = self._send(method, path, params, body)
        try:
            return TypeAdapter(kind).validate_python(self._data(response))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise LabelStudioError(
                f"{self.url} did not answer {method} {path} as Label Studio 1.x does ({where}: "
                f"{first['msg']}). Check --url, or upgrade it or goalward."
            ) from error

    def _renew(self) -> None:
        self._http.headers.pop("Authorization", None)
        response = self._send("POST", "/api/token/refresh", None, {"refresh": self._personal})
        data = self._data(response)
        access = data.get("access") if isinstance(data, dict) else None
        if not access:
            raise LabelStudioError(
                f"{self.url} gave no access token. Make a new personal one in Account & Settings."
            )
        self._http.headers["Authorization"] = f"Bearer {access}"

    def _send(self, method: str, path: str, params: Any, body: Any) -> Any:
        adds = method == "POST"
        for wait in WAITS:
            try:
                response = self._http.request(method, path, params=params, json=body)
                if wait is None or response.status_code not in (NOT_BEGUN if adds else RETRIED):
                    return response
            except httpx.TransportError as error:
                begun = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
                if wait is None or (adds and begun):
                    raise NotReached(
                        f"{self.url} did not answer {method} {path} ({type(error).__name__}: {error}). "
                        "Check --url, and that Label Studio runs there."
                    ) from error
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _data(self, response: Any) -> Any:
        """Return the data of a response, or raise with the server's reason."""
        code = response.status_code
        request = f"{response.request.method} {response.request.url.path}"
        try:
            data = response.json() if response.content else None
        except (ValueError, RecursionError) as error:
            data = response.reason_phrase
            if code < 300:
                raise LabelStudioError(
                    f"{self.url} answered {request} with something that is not JSON. Check --url."
                ) from error
        if code < 300:
            return data
        if code < 400:
            raise LabelStudioError(
                f"{self.url} redirects {request} to {response.headers.get('location', '?')!r}, which is "
                "not followed. Give that address as --url if it is right."
            )
        if isinstance(data, dict):
            data = data.get("validation_errors") or data.get("detail") or data
        failure = NotReached if code >= 500 else LabelStudioError
        detail = f"{self.url} answered {request} with {code}: {str(data)[:LONGEST_DETAIL]}."
        raise failure(f"{detail} {HINTS.get(code, 'Look into its log.')}")
