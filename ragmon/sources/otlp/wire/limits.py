"""Bounds of one export request, in either encoding."""

from ragmon.json_scan import count_byte
from ragmon.memory import MemoryReservation

UNLIMITED = 1 << 40

STRETCH_RECORDS = 512
STRETCH_BYTES = 1 << 19
"""Spans are decoded so many at a time and packed before the next: a packed span takes about what it
takes on the wire, a decoded one up to eighty times that."""

# Measured until the spans are durable.
_RECORD_BYTES = 600
_BYTES_PER_BYTE = 3
_STRETCH = 8 << 20

# Of JSON decoded into objects, whatever it says.
_OBJECT_BYTES = 130
_ARRAY_BYTES = 64
_BYTES_PER_JSON_BYTE = 4


def reserve_records(memory: MemoryReservation | None, records: int, size: int) -> None:
    """Reserve what spans or log records take until they are durable.

    Args:
        memory: of the request; none: nothing is reserved.
        records: in the request.
        size: of its body.

    Raises:
        MemoryLimitError: it does not fit.
    """
    if memory is not None:
        memory.take(_RECORD_BYTES * records + _BYTES_PER_BYTE * size + min(_STRETCH, 80 * size))


def reserve_json(memory: MemoryReservation | None, body: bytes) -> None:
    """Reserve what a JSON body takes once it is decoded.

    Raises:
        MemoryLimitError: it does not fit.
    """
    if memory is not None:
        objects, arrays = count_byte(body, b"{"), count_byte(body, b"[")
        memory.take(
            _OBJECT_BYTES * objects + _ARRAY_BYTES * arrays + _BYTES_PER_JSON_BYTE * len(body)
        )
