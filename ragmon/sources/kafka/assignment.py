"""Partitions that this process reads, and where it is in each of them.

All of a topic where one process reads it, else those that the group gave to this one. Positions
are those of the store alone; what Kafka remembers for the group is for its tools.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ragmon.sources.kafka.positions import (
    Cause,
    KafkaPosition,
    TopicIdentity,
    pack,
    unpack,
)

_OLDEST = -2  # the oldest message there is: librdkafka's OFFSET_BEGINNING


class Assignment:
    """Positions in the partitions of one topic."""

    def __init__(self, name: str, stored: Callable[[str], bytes | None]) -> None:
        """Make it; nothing is assigned.

        Args:
            name: of the source, under which positions are stored.
            stored: returns a stored position by its name.
        """
        self.identity = TopicIdentity()
        self.positions: dict[int, KafkaPosition] = {}
        self._name = name
        self._stored = stored

    def load(self, identity: TopicIdentity, partitions: int) -> None:
        """Take all partitions of a topic, each where the store has it."""
        self.identity = identity
        self.positions = {number: self._load(number) for number in range(partitions)}

    def extend(self, partitions: int) -> bool:
        """Take partitions that were added; False when there are none."""
        added = range(len(self.positions), partitions)
        self.positions.update((number, self._load(number)) for number in added)
        return bool(added)

    def add(self, number: int, stored: bytes | None) -> KafkaPosition:
        """Take one partition, where the store has it; the oldest message without a position."""
        position = self.positions[number] = self._at(stored)
        return position

    def remove(self, number: int) -> None:
        """Take a partition no longer."""
        self.positions.pop(number, None)

    def reading(self) -> dict[int, KafkaPosition]:
        """Partitions that are read, from where."""
        return {number: each for number, each in self.positions.items() if not each.stopped}

    def stopped(self) -> dict[int, str]:
        """Partitions that are not read, and why."""
        return {number: each.stopped for number, each in self.positions.items() if each.stopped}

    def is_behind(self, partition: int, offset: int) -> bool:
        """True for a message that was read before."""
        position = self.positions.get(partition)
        return position is None or offset < position.offset or bool(position.stopped)

    def moved(self, ends: Mapping[int, tuple[int, int]]) -> dict[int, KafkaPosition]:
        """Positions after messages, by partition with offset and leader epoch; not taken yet."""
        return {
            number: KafkaPosition(offset, self.identity, epoch)
            for number, (offset, epoch) in ends.items()
        }

    def skipped_to(self, partition: int, offset: int) -> dict[int, KafkaPosition]:
        """The position after messages that are gone; not taken yet."""
        return {partition: KafkaPosition(offset, self.identity)}

    def stopped_for(self, partition: int, cause: Cause) -> dict[int, KafkaPosition]:
        """The position of a partition that is not read on; not taken yet."""
        return {partition: replace(self.positions[partition], stopped=cause)}

    def packed(self, positions: Mapping[int, KafkaPosition]) -> Sequence[tuple[str, bytes]]:
        """Positions as they are committed."""
        return [(self.key(number), pack(each)) for number, each in positions.items()]

    def take(self, positions: Mapping[int, KafkaPosition]) -> None:
        """Go on from positions that are durable."""
        self.positions.update(positions)

    def key(self, number: int) -> str:
        """Name under which the position of a partition is stored."""
        return f"{self._name}:{number}"

    def _load(self, number: int) -> KafkaPosition:
        return self._at(self._stored(self.key(number)))

    def _at(self, stored: bytes | None) -> KafkaPosition:
        if stored is None:
            return KafkaPosition(_OLDEST, self.identity)
        position = unpack(stored)
        cause = position.identity.difference(self.identity)
        return position if cause is None else replace(position, stopped=cause)
