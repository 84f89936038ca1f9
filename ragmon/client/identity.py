"""Ids: of queries, ordered by time; of passages that came without one."""

from __future__ import annotations

import os
import random

from ragmon.client.limits import MAX_ID

_VERSION_7 = 0x7 << 76
_VARIANT = 0x2 << 62
_FREE = (0xFFF << 64) | ((1 << 62) - 1)


class QueryIds:
    """Makes version 7 UUIDs, as 32 hex digits.

    The generator is seeded here, so ``random.seed`` of the application does not repeat ids; a
    forked child makes its own. Asking the operating system for each id would let go of the
    interpreter lock, and a busy thread would keep the caller waiting for it.

    Source: RFC 9562, section 5.7.
    """

    def __init__(self) -> None:
        self._bits = random.Random(os.urandom(32)).getrandbits  # noqa: S311

    def new(self, now: float) -> str:
        """An id; ids sort by ``now``, in unix seconds, to the millisecond."""
        stamp = (int(now * 1000.0) & 0xFFFF_FFFF_FFFF) << 80
        return f"{stamp | self._bits(80) & _FREE | _VERSION_7 | _VARIANT:032x}"


def text_id(text: str) -> str:
    """The id of a passage known by its text alone; the same in every process."""
    from hashlib import blake2b  # noqa: PLC0415 - it loads OpenSSL, and few passages lack an id

    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def wire_id(value: object) -> str:
    """Any id as the server admits it: text of 1 to 256 characters; longer ones are hashed.

    Raises:
        ValueError: it is empty, or no kind of id.
    """
    if isinstance(value, (bool, dict, list, tuple, set)) or value is None:
        raise ValueError(f"expected an id, got {type(value).__name__}")
    text = value if isinstance(value, str) else str(value)
    if not text:
        raise ValueError("the id is empty")
    return text if len(text) <= MAX_ID else text_id(text)
