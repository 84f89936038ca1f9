"""Journal of the store into the buffer of detection."""

from collections.abc import Sequence

from ragmon.detectors.intake import ObservationBuffer
from ragmon.stores import Restatement
from ragmon.windows.observations import unpack


def feed(buffer: ObservationBuffer, change: bytes | Restatement, columns: Sequence[str]) -> None:
    """Buffer one commit.

    Args:
        buffer: of detection.
        change: of an entry of the journal.
        columns: keys of the observation columns that are wanted.
    """
    if isinstance(change, Restatement):
        buffer.restate(unpack(change.old, columns), unpack(change.new, columns))
    else:
        buffer.log(unpack(change, columns))
