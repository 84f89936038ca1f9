"""A topic that several processes share: each reads the partitions that Kafka gives it.

Kafka's group says who should read a partition; the store says who may write what it brings. The
position of a partition lies beside its records in the store, and reading begins there, whatever
Kafka remembers. Whatever goes wrong, all that is in hand is thrown away, the group is left and
joined again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import structlog

from ragmon.sources.kafka.client import KafkaLog
from ragmon.sources.kafka.options import Options
from ragmon.sources.kafka.positions import KafkaPosition


class GroupMembership(Protocol):
    """Receiver of partitions that come and go while messages are fetched."""

    def take(self, partition: int) -> KafkaPosition | None:
        """Own a partition; returns where to read on, None: it must not be read."""
        ...

    def let_go(self, partition: int) -> None:
        """Own it no longer: what is in hand of it is of no use."""
        ...


class GroupLog(KafkaLog):
    """A consumer whose partitions the group assigns."""

    def __init__(self, options: Options, membership: GroupMembership) -> None:
        """Connect, in the background; partitions come with ``fetch`` once ``join`` was called.

        Args:
            options: of the source.
            membership: is told of partitions, on the thread that fetches.

        Raises:
            SettingsError: librdkafka knows no such option, or a file is missing.
        """
        super().__init__(options, _group_settings(options))
        self._membership = membership
        self._failed: BaseException | None = None
        self._group_log = structlog.get_logger("kafka").bind(topic=options.topic)

    def join(self) -> None:
        """Become a member of the group."""
        self._consumer.subscribe(
            [self._options.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def check(self) -> None:
        """Raise what went wrong while partitions came or went."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _on_assign(self, consumer: Any, places: Sequence[Any]) -> None:
        try:
            positions: dict[int, KafkaPosition] = {}
            for place in places:
                position = self._membership.take(place.partition)
                if position is not None:
                    positions[place.partition] = position
            self._assigned = sorted({*self._assigned, *positions})
            self._attach(consumer, [self._place(*item) for item in positions.items()])
        except Exception as error:  # noqa: BLE001 - a callback of C: raised by ``check``
            self._failed = error

    def _on_revoke(self, _: Any, places: Sequence[Any]) -> None:
        gone = {place.partition for place in places}
        self._assigned = [number for number in self._assigned if number not in gone]
        for number in sorted(gone):
            self._membership.let_go(number)
        self._group_log.info("partitions_revoked", partitions=sorted(gone))

    def _attach(self, consumer: Any, places: Sequence[Any]) -> None:
        self._group_log.info("partitions_assigned", partitions=[each.partition for each in places])
        consumer.incremental_assign(list(places))

    def _shown(self, error: Any, _: object) -> None:
        """Log nothing: offsets that come while partitions change hands are refused."""

    def drop(self, partition: int) -> None:
        """Read a partition no further, for as long as this process has it."""
        self._assigned = [number for number in self._assigned if number != partition]
        place = self._kafka.TopicPartition(self._options.topic, partition)
        self._consumer.incremental_unassign([place])

    def move(self, partition: int, position: KafkaPosition) -> None:
        """Read a partition from another place on."""
        self.drop(partition)
        self._consumer.incremental_assign([self._place(partition, position)])
        self._assigned = sorted({*self._assigned, partition})


def _group_settings(options: Options) -> Mapping[str, str]:
    """Settings of a member; in the protocol of KIP-848 the broker chooses the assignment."""
    if options.options.get("group.protocol") == "consumer":
        return {}
    return {"partition.assignment.strategy": "cooperative-sticky"}
