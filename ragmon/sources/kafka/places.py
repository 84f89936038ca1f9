"""Stored positions of a topic, for whoever shows or sets them beside the source itself."""

from typing import NamedTuple, Protocol

from ragmon.errors import SettingsError
from ragmon.sources.kafka.log import TopicDescription
from ragmon.sources.kafka.positions import KafkaPosition, pack, unpack

OLDEST, END = "oldest", "end"


class StoredPlace(NamedTuple):
    """A stored position."""

    offset: int  # of the next message; below 0: of the oldest
    stopped: str  # the reason for not reading on; empty: it is read


class DescribedLog(Protocol):
    """A topic that is asked about, and not read."""

    def describe(self) -> TopicDescription:
        """The topic as it is now."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """Offsets of the oldest message, and of the next one to be written."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class TopicPlaces:
    """Positions in one topic."""

    def __init__(self, name: str, log: DescribedLog) -> None:
        """Make it; the brokers are asked when a position is wanted.

        Args:
            name: of the source.
            log: of the topic.
        """
        self._name = name
        self._log = log

    def cause(self, stored: bytes) -> str:
        """The reason for which a stored position is not read on; empty: it is.

        Raises:
            RemoteError: the brokers do not answer, or refuse.
        """
        position = unpack(stored)
        return position.stopped or position.identity.difference(self._log.describe().identity) or ""

    def key(self, partition: int) -> str:
        """Name under which the position of a partition is stored."""
        return f"{self._name}:{partition}"

    def at(self, partition: int, to: str) -> tuple[int, bytes]:
        """A position in the topic as it is now: its offset, and as it is stored.

        Args:
            partition: number of it.
            to: ``oldest``, ``end``, or the offset of the next message.

        Raises:
            SettingsError: there is no such partition or offset.
            RemoteError: the brokers do not answer, or refuse.
        """
        topic = self._log.describe()
        if not 0 <= partition < topic.partitions:
            raise SettingsError(
                f"--partition {partition}: the topic has {topic.partitions} partitions, from 0 on"
            )
        oldest, end = self._log.bounds(partition)
        offset = {OLDEST: oldest, END: end}.get(to)
        if offset is None:
            offset = _number(to)
            if not oldest <= offset <= end:
                raise SettingsError(
                    f"--to {to}: partition {partition} has the messages from {oldest} to {end}"
                )
        return offset, pack(KafkaPosition(offset, topic.identity))

    def close(self) -> None:
        """Leave the brokers."""
        self._log.close()


def stored_place(stored: bytes) -> StoredPlace:
    """A position as it was stored."""
    position = unpack(stored)
    return StoredPlace(position.offset, position.stopped)


def _number(to: str) -> int:
    if not to.isdecimal():
        raise SettingsError(f"--to {to}: write {OLDEST}, {END}, or the offset of a message")
    return int(to)
