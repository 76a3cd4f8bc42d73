"""What stands between callers and the page: a path, and proxies that say who calls.

What a request says of itself in X-Forwarded-For, -Proto and -Host is believed from named proxies
only, and only the last value, which the proxy itself wrote: what stands before it came from the
caller. Another header of the same meaning (Forwarded) is not read: a proxy that sets one kind lets
the other through as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from goalward.errors import BadParameter

__all__ = ["DIRECT", "Outside"]


@dataclass(frozen=True)
class Outside:
    """How the page is reached from outside.

    Parameters
    ----------
    names
        Host names it goes by, besides its addresses.
    prefix
        The path it stands below, as in https://example.org/labels/; proxies pass it on as it is.
    proxies
        Addresses or networks whose X-Forwarded headers are believed.
    user_header
        The header in which these proxies, and nobody else, say which member of a team is there.

    Examples
    --------
    >>> outside = Outside(prefix="/labels", proxies=("10.0.0.0/8",))
    >>> forwarded = [(b"x-forwarded-for", b"8.8.8.8, 192.0.2.7"), (b"x-forwarded-proto", b"https")]
    >>> scope = {"path": "/labels/", "client": ("10.0.0.3", 5), "headers": forwarded}
    >>> outside.apply(scope)
    >>> scope["client"], scope["scheme"], scope["root_path"]
    (('192.0.2.7', 0), 'https', '/labels')
    """

    names: tuple[str, ...] = ()
    prefix: str = ""
    proxies: tuple[str, ...] = ()
    user_header: str = ""
    _networks: tuple[object, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prefix = self.prefix.rstrip("/")
        if not re.fullmatch(r"(/(?!\.)[A-Za-z0-9._~-]+)*", prefix):
            raise BadParameter(
                f"--prefix {self.prefix!r}; a path such as /labels was expected: letters, digits, and "
                "- . _ ~ between slashes."
            )
        object.__setattr__(self, "prefix", prefix)
        try:
            networks = tuple(ip_network(one) for one in self.proxies)
        except ValueError as error:
            raise BadParameter(
                f"--proxy: {error}; an address such as 127.0.0.1 or a network such as 10.0.0.0/24 was "
                "expected."
            ) from error
        object.__setattr__(self, "_networks", networks)
        if self.user_header and not networks:
            raise BadParameter(
                f"--user-header {self.user_header} came without --proxy; the address of the proxy that sets "
                "it was expected. From others it says nothing."
            )

    def apply(self, scope: Scope) -> None:
        """Write into a request what is true of it; refuse what no proxy of ours would send."""
        client = scope.get("client")
        if client and self._is_proxy(_address(client[0])):
            self._believe(scope)
            if self.user_header:
                scope.setdefault("state", {})["named"] = self._user(Headers(scope=scope))
        path, prefix = scope["path"], self.prefix
        if not prefix:
            return
        if path == prefix:
            raise HTTPException(308, f"The page is at {prefix}/.", {"location": f"{prefix}/"})
        if not path.startswith(f"{prefix}/"):
            raise HTTPException(
                404,
                f"The page stands below {prefix}/, where this path does not begin. A proxy must pass "
                "paths on as they come.",
            )
        scope["root_path"] = prefix

    def _is_proxy(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)  # type: ignore[operator]

    def _user(self, headers: Headers) -> str | None:
        said = headers.getlist(self.user_header)
        if len(said) > 1:
            raise HTTPException(
                400, f"{self.user_header} came {len(said)} times; once was expected."
            )
        # On the wire headers are Latin-1; proxies write UTF-8.
        return (
            said[0].encode("latin-1").decode("utf-8", "replace").strip() or None if said else None
        )

    def _believe(self, scope: Scope) -> None:
        headers = Headers(scope=scope)

        def said(name: str) -> list[str]:
            values = ",".join(headers.getlist(f"x-forwarded-{name}"))
            return [value.strip() for value in values.split(",")] if values else []

        for value in reversed(said("for")):
            address = _address(value)
            if address is None:
                raise HTTPException(400, "The proxy's X-Forwarded-For ends in no address.")
            scope["client"] = (str(address), 0)
            if not self._is_proxy(address):
                break
        if scheme := said("proto")[-1:]:
            if scheme[0].lower() not in ("http", "https"):
                raise HTTPException(400, "The proxy's X-Forwarded-Proto is not http or https.")
            scope["scheme"] = scheme[0].lower()
        if host := said("host")[-1:]:
            others = [pair for pair in scope["headers"] if pair[0].lower() != b"host"]
            scope["headers"] = [*others, (b"host", host[0].encode("latin-1"))]


DIRECT = Outside()
"""Nothing stands between."""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address of "192.0.2.7", "192.0.2.7:80", "::1" or "[::1]:80"; None of any other."""
    found = re.fullmatch(r"\[(.+)\](?::\d+)?|([\d.]+)(?::\d+)?|([0-9a-fA-F:.]+)", text)
    try:
        address = ip_address(next(filter(None, found.groups()))) if found else None
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
