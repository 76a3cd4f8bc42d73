"""Secrets of a running server: a token for programs, links that work once, a cookie for browsers."""

from __future__ import annotations

import secrets
import threading
from hashlib import sha256

from goalward.errors import BadParameter

__all__ = ["Keys"]

SHORTEST = 16


class Keys:
    """What opens a server; everything is new with each start but a token that was given.

    Parameters
    ----------
    token
        For programs (`Authorization: Bearer ...`) and the sign-in page; random by default.
    port
        Cookies do not tell ports apart, so the name of ours does.

    Examples
    --------
    >>> keys = Keys()
    >>> link = keys.link()
    >>> keys.redeem(link), keys.redeem(link)
    (True, False)
    """

    def __init__(self, token: str | None = None, *, port: int = 0) -> None:
        if token is not None and len(token) < SHORTEST:
            raise BadParameter(
                f"The token has {len(token)} characters; at least {SHORTEST} were expected. Leave it "
                "out to get a random one."
            )
        self.token = token or secrets.token_urlsafe(32)
        self.cookie = f"goalward_{port}"
        self.session = secrets.token_urlsafe(32)
        self._links: set[bytes] = set()
        self._lock = threading.Lock()

    def link(self) -> str:
        """Return a new token that `redeem` takes once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links.add(_digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Return whether a link's token is good, which it then no longer is."""
        # Digests are compared by hash, so the time says nothing about the token.
        with self._lock:
            known = _digest(token) in self._links
            self._links.discard(_digest(token))
        return known

    def is_token(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        return secrets.compare_digest(_digest(token), _digest(self.token))

    def is_session(self, value: str) -> bool:
        """Return whether this is the cookie's value, in constant time."""
        return secrets.compare_digest(_digest(value), _digest(self.session))


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
