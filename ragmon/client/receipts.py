"""The server's account of a batch, decoded by msgspec; imported with the first monitor."""

from __future__ import annotations

from typing import Any, Union

import msgspec
from msgspec import Struct


class RejectedLine(Struct, frozen=True):
    """One record the server did not take."""

    line: int = 0
    field: str = ""
    error: str = ""


class ServerReceipt(Struct, frozen=True):
    """The server's account of a batch."""

    accepted: int
    duplicates: int = 0
    rejected: list[RejectedLine] = []
    # msgspec evaluates it, and Python 3.9 has no `X | Y` of types.
    ignored_fields: Union[dict[str, Any], list[Any], None] = None  # noqa: UP007


_receipts = msgspec.json.Decoder(ServerReceipt)


def receipt_in(body: bytes) -> ServerReceipt | None:
    """The receipt in the body of an answer; ``None`` when it is none."""
    try:
        return _receipts.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
