"""Cursor of a page: the place of its last query in the whole list, as text."""

import base64
import binascii
import math

import msgspec

from ragmon.queries.criteria import Order

_Content = tuple[str, float, int]
_MOST_LENGTH = 200


def write_cursor(order: Order, after: tuple[float, int]) -> str:
    """The cursor of what comes after a query.

    Args:
        order: of the list.
        after: rank and number of the query.
    """
    packed = msgspec.msgpack.encode((order, *after))
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def read_cursor(order: Order, text: str) -> tuple[float, int]:
    """Rank and number that ``write_cursor`` was called with.

    Raises:
        ValueError: it is no cursor, or one of another order.
    """
    try:
        if len(text) > _MOST_LENGTH:
            raise ValueError("too long")
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        written_for, rank, sequence = msgspec.msgpack.decode(packed, type=_Content)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise ValueError(
            f"cursor: {text[:40]!r} is none; take next_cursor of the page before, as it is"
        ) from None
    if math.isnan(rank) or written_for != order:
        raise ValueError(
            f"cursor: it was made for order={written_for[:20]}, this is {order}; begin without"
            " cursor, or ask for the same order"
        )
    return rank, sequence
