"""A partitioned log as the consumer sees it; Kafka's is in ``client``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ragmon.sources.kafka.positions import KafkaPosition, TopicIdentity


class LogMessage(Protocol):
    """A message, or an error of one partition: confluent_kafka's ``Message``."""

    def error(self) -> Any:
        """None for a message."""
        ...

    def partition(self) -> int:
        """Number of its partition."""
        ...

    def offset(self) -> int:
        """Number of the message within the partition."""
        ...

    def leader_epoch(self) -> int | None:
        """Epoch of the leader that had it."""
        ...

    def key(self) -> bytes | None:
        """Its key."""
        ...

    def value(self) -> bytes | None:
        """Its content; None: a tombstone."""
        ...

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Its headers."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Kind of time, and unix milliseconds."""
        ...


class TopicDescription(NamedTuple):
    """A topic as the brokers describe it."""

    identity: TopicIdentity
    partitions: int


class Fetched(NamedTuple):
    """Messages, and partitions whose position the brokers do not have."""

    messages: Sequence[LogMessage]
    lost_place: Sequence[int]  # their position is out of range
    cut_off: Sequence[int]  # the log was cut behind their position


class PartitionedLog(Protocol):
    """One topic; for one thread. Every method raises RemoteError when brokers refuse."""

    def describe(self) -> TopicDescription:
        """The topic as it is now."""
        ...

    def assign(self, positions: Mapping[int, KafkaPosition]) -> None:
        """Read these partitions from these positions on, and no others."""
        ...

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        """The next messages, as soon as there are so many, or when time is up."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """Offsets of the oldest message, and of the next one to be written."""
        ...

    def ends(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Offsets of the next ones to be written, of those where it is known, without asking."""
        ...

    def pause(self) -> None:
        """Fetch nothing until ``resume``."""
        ...

    def resume(self) -> None:
        """Fetch again."""
        ...

    def show(self, positions: Mapping[int, KafkaPosition]) -> None:
        """Let Kafka's tools see how far it was read; nothing depends on it."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


OpenLog = Callable[[], PartitionedLog]
"""Connects; raises RemoteError or SettingsError."""
