"""Passphrases as they are kept: what scrypt makes of them, with the numbers it was made by.

scrypt of Python's own library (OpenSSL's), because it needs no other package, is hard for hardware
that guesses (32 MB a try), and takes its cost as parameters, which stand in every hash: they can be
raised later, and older hashes still serve.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata

from goalward.errors import BadParameter

__all__ = ["hashed", "matches"]

SHORTEST, LONGEST = 10, 1000
COST, BLOCK, PARALLEL = 2**15, 8, 3
"""N, r and p as OWASP advises for 32 MB; about a quarter of a second."""


def hashed(passphrase: str) -> str:
    """Return what may be kept of a passphrase, or refuse one that is too short.

    Examples
    --------
    >>> matches("plenty of words", hashed("plenty of words"))
    True
    """
    if not SHORTEST <= len(passphrase) <= LONGEST:
        raise BadParameter(
            f"The passphrase has {len(passphrase)} characters; at least {SHORTEST} were expected, and "
            f"at most {LONGEST}. Four words that do not belong together are good, and easy to keep."
        )
    salt = secrets.token_bytes(16)
    made = _scrypt(passphrase, salt, COST, BLOCK, PARALLEL)
    return f"scrypt${COST}${BLOCK}${PARALLEL}${salt.hex()}${made.hex()}"


def matches(passphrase: str, kept: str) -> bool:
    """Return whether a passphrase is the one that was kept; as slow where none was ("")."""
    _, cost, block, parallel, salt, made = (kept or _NOBODY).split("$")
    found = _scrypt(passphrase[:LONGEST], bytes.fromhex(salt), int(cost), int(block), int(parallel))
    return secrets.compare_digest(found, bytes.fromhex(made)) and bool(kept)


def _scrypt(passphrase: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    # The same words from another keyboard may be other code points.
    words = unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")
    room = 256 * cost * block
    return hashlib.scrypt(words, salt=salt, n=cost, r=block, p=parallel, maxmem=room, dklen=32)


_NOBODY = f"scrypt${COST}${BLOCK}${PARALLEL}${'00' * 16}${'00' * 32}"
"""Compared with where a name is not known: that must take as long."""
