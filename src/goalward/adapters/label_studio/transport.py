"""Requests to one Label Studio server: its tokens, its errors, and patience with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from goalward.core.extras import needing
from goalward.errors import BadParameter, LabelStudioError, NotReached

__all__ = ["Transport"]

RETRIED = frozenset({429, 500, 502, 503, 504})
NOT_DONE = frozenset({429, 503})
"""Answers that say a request was not begun, so that even one that adds things may be repeated."""
ATTEMPTS, TIMEOUT = 4, 60.0
"""How often a request is tried where the server does not answer or fails (5xx), and for how many
seconds. One that adds things is repeated only where the server cannot have begun it."""
LONGEST_DETAIL = 500


class Transport:
    """JSON over HTTP to the configured server and no other: redirects are not followed.

    Parameters
    ----------
    url
        Where Label Studio is: http://127.0.0.1:8080, https://host/label-studio.
    token
        A legacy token, or a personal access token (a JWT, exchanged for short-lived ones).
    sleep
        How it waits, in seconds.
    """

    def __init__(self, url: str, token: str, sleep: Callable[[float], None]) -> None:
        with needing("Label Studio"):
            import httpx
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
        self._token, self._access = token, ""
        self._is_jwt = _is_jwt(token)
        self._sleep = sleep
        self._errors = httpx.TransportError
        self._never_sent = (httpx.ConnectError, httpx.ConnectTimeout)
        local = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        # A proxy of the environment is for other hosts than this one.
        self._http = httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=not local)

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def call(
        self, method: str, path: str, *, params: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Return what the server answers, as data.

        Raises
        ------
        NotReached
            It did not answer, or failed, every time; later it may be well again.
        LabelStudioError
            It refused, or is no Label Studio.
        """
        if self._is_jwt and not self._access:
            self._refresh()
        answer = self._sent(method, path, params, body, self._authorization)
        if answer.status_code == 401 and self._is_jwt:
            # Access tokens live for minutes.
            self._refresh()
            answer = self._sent(method, path, params, body, self._authorization)
        return self._read(answer, method, path)

    @property
    def _authorization(self) -> dict[str, str]:
        said = f"Bearer {self._access}" if self._is_jwt else f"Token {self._token}"
        return {"Authorization": said}

    def _refresh(self) -> None:
        body = {"refresh": self._token}
        answer = self._read(
            self._sent("POST", "/api/token/refresh", None, body, {}), "POST", "/api/token/refresh"
        )
        self._access = str(answer.get("access", "")) if isinstance(answer, dict) else ""
        if not self._access:
            raise LabelStudioError(
                f"{self.url} gave no access token for the personal access token; one was expected. Make "
                "a new token in Account & Settings."
            )

    def _sent(self, method: str, path: str, params: Any, body: Any, headers: dict[str, str]) -> Any:
        adds = method == "POST"
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                answer = self._http.request(
                    method, self.url + path, params=params, json=body, headers=headers
                )
            except self._errors as error:
                if last or (adds and not isinstance(error, self._never_sent)):
                    raise NotReached(
                        f"{self.url} did not answer {method} {path} ({type(error).__name__}: {error}); "
                        "a Label Studio server was expected there. Check --url and that it runs."
                    ) from error
            else:
                code = answer.status_code
                if code not in RETRIED or last or (adds and code not in NOT_DONE):
                    return answer
            self._sleep(0.5 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, answer: Any, method: str, path: str) -> Any:
        code, what = answer.status_code, f"{method} {path}"
        if code in (401, 403):
            raise LabelStudioError(
                f"{self.url} refused the token for {what} ({code}: {_detail(answer)}). Check the token: a "
                "legacy one may be switched off for the organization; a personal access token works "
                "then. Its user must be a member of the project."
            )
        if code == 404:
            raise LabelStudioError(
                f"{self.url} has no {path} (404: {_detail(answer)}). Check --url and --project, and that "
                "the token's user can see the project."
            )
        if 300 <= code < 400:
            raise LabelStudioError(
                f"{self.url} sends {what} elsewhere ({code} to {answer.headers.get('location', '?')!r}), "
                "which is not followed. Give that address as --url if it is right."
            )
        if code >= 500:
            raise NotReached(f"{self.url} failed at {what} ({code}: {_detail(answer)}).")
        if code >= 400:
            raise LabelStudioError(f"{self.url} refused {what} ({code}: {_detail(answer)}).")
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise LabelStudioError(
                f"{self.url} answered {what} with something that is not JSON; a Label Studio server was "
                "expected. Check --url."
            ) from error


def _detail(answer: Any) -> str:
    """Return what a server says went wrong, in short."""
    try:
        body = answer.json()
    except ValueError:
        return str(answer.reason_phrase)
    if isinstance(body, dict):
        body = body.get("validation_errors") or body.get("detail") or body
    return str(body)[:LONGEST_DETAIL]


def _is_jwt(token: str) -> bool:
    """Return whether a token is a JWT: three parts, the first of them JSON that names an algorithm."""
    head, *rest = token.split(".")
    try:
        decoded = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return False
    return len(rest) == 2 and isinstance(decoded, dict) and "alg" in decoded
