"""What opens a server."""

from __future__ import annotations

import secrets
from hashlib import sha256

from starlette.exceptions import HTTPException

from goalward.errors import BadParameter
from goalward.server.attempts import Attempts

__all__ = ["Keys"]

SHORTEST_TOKEN = 16


class Keys:
    """What opens a server: a token for programs, links that work once, a cookie for browsers.

    All but a token that was given is new with each start.

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
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise BadParameter(
                f"The token has {len(token)} characters; at least {SHORTEST_TOKEN} were expected. Leave it "
                "out to get a random one."
            )
        self.token = token or secrets.token_urlsafe(32)
        self.cookie = f"goalward_{port}"
        self.session = secrets.token_urlsafe(32)
        self.attempts = Attempts()
        self._links: set[bytes] = set()

    def link(self) -> str:
        """Return a new token that `redeem` takes once."""
        token = secrets.token_urlsafe(32)
        self._links.add(_digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Return whether a link's token is good, which it then no longer is."""
        # Digests are compared by hash, so the time says nothing about the token.
        try:
            self._links.remove(_digest(token))
        except KeyError:
            return False
        return True

    def is_token(self, token: str, address: str) -> bool:
        """Return whether this is the token, in constant time; 429 for who guessed too often."""
        if wait := self.attempts.wait(address):
            raise HTTPException(
                429,
                f"Too many wrong tokens came from {address}; try again in {wait:.0f} seconds.",
                {"retry-after": f"{wait:.0f}"},
            )
        if secrets.compare_digest(_digest(token), _digest(self.token)):
            return True
        self.attempts.failed(address, _digest(token))
        return False

    def is_session(self, value: str) -> bool:
        """Return whether this is the cookie's value, in constant time."""
        return secrets.compare_digest(_digest(value), _digest(self.session))


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
