"""Figures of a topic that is read: how far behind, what is lost, what stands still."""

from collections.abc import Mapping

from msgspec import Struct

from ragmon.sources.kafka.positions import KafkaPosition

_MOST_PARTITIONS = 256  # with a series of their own
_REST = "other"


class LogFigures(Struct):
    """Written by the thread that reads; every other thread only looks."""

    topic: str
    lag: Mapping[str, float] = {}  # messages, by partition
    lag_s: float = 0.0
    lost: int = 0  # messages that Kafka deleted before they were read
    partitions: int = 0  # of the topic; 0: not known yet
    unkeyed: int = 0  # messages without a key
    stopped: Mapping[str, int] = {}  # partitions, by reason


class Lag:
    """Messages and seconds between what was read and what was written."""

    def __init__(self) -> None:
        self._written_at: dict[int, float] = {}  # unix seconds of the last message read

    def note(self, partition: int, written_at: float) -> None:
        """Take in the time of a message that was read."""
        if written_at > 0.0:
            self._written_at[partition] = written_at

    def measure(
        self,
        positions: Mapping[int, KafkaPosition],
        ends: Mapping[int, int],
        now: float,
    ) -> tuple[dict[str, float], float]:
        """Messages by partition, and the seconds of the partition that is furthest behind.

        Args:
            positions: that were read up to.
            ends: of the partitions, where they are known.
            now: unix seconds.
        """
        lag: dict[str, float] = {}
        seconds = 0.0
        for number, end in ends.items():
            behind = max(0, end - max(0, positions[number].offset))
            name = str(number) if number < _MOST_PARTITIONS else _REST
            lag[name] = lag.get(name, 0.0) + behind
            if behind and number in self._written_at:
                seconds = max(seconds, now - self._written_at[number])
        return lag, seconds
