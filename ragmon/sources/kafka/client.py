"""Kafka by librdkafka: one consumer of one topic, with errors that name the setting to mend.

It needs the extra ``cluster``.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import structlog

from ragmon.errors import RemoteError, SettingsError, extra_hint
from ragmon.sources.kafka.log import Fetched, LogMessage, TopicDescription
from ragmon.sources.kafka.options import Options, client_settings, consumer_settings
from ragmon.sources.kafka.positions import KafkaPosition, TopicIdentity
from ragmon.sources.kafka.problems import AGAIN, ClientProblem, short

_ASK_S = 5.0
_CREATE_S = 30.0
_LOOKS, _LOOK_S = 50, 0.1  # for a topic that was made
_OUT_OF_RANGE = "_AUTO_OFFSET_RESET"
_CUT_OFF = "_LOG_TRUNCATION"


def require_client() -> Any:
    """The module confluent_kafka.

    Raises:
        SettingsError: it is not installed.
    """
    try:
        import confluent_kafka.admin  # noqa: PLC0415 - optional
    except ImportError:
        raise SettingsError(
            "the source kafka needs confluent-kafka, which is not installed",
            hint=extra_hint("cluster"),
        ) from None
    return confluent_kafka


def refused(error: Exception) -> SettingsError:
    """The error for settings that librdkafka does not take."""
    return SettingsError(f"librdkafka refuses the settings: {short(error.args[0])}")


class KafkaLog:
    """See ``PartitionedLog`` for what the methods promise."""

    def __init__(self, options: Options, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Connect, in the background.

        Args:
            options: of the source.
            more: settings of the consumer, by librdkafka's names.

        Raises:
            SettingsError: librdkafka knows no such option, or a file is missing.
        """
        self._kafka = require_client()
        self._options = options
        self._problem = ClientProblem(options)
        self._assigned: list[int] = []
        self._log = structlog.get_logger("kafka").bind(topic=options.topic)
        common = {"error_cb": self._problem.note, "logger": silent_logger()}
        try:
            self._consumer = self._kafka.Consumer(
                consumer_settings(options) | common | dict(more) | {"on_commit": self._shown}
            )
            self._admin = self._kafka.admin.AdminClient(client_settings(options) | common)
        except self._kafka.KafkaException as error:
            raise refused(error) from None
        self._is_shown = True

    def describe(self) -> TopicDescription:
        """The topic as it is now; it is made where it is missing and ``create`` says so."""
        try:
            if self._is_missing():
                self._create()
            description = self._described()
        except self._kafka.KafkaException as error:
            self._consumer.poll(0)  # the cause is told by a callback
            raise self._problem.explained(error.args[0]) from None
        self._problem.last = None
        return description

    def _is_missing(self) -> bool:
        topic = self._options.topic
        error = self._consumer.list_topics(topic, timeout=_ASK_S).topics[topic].error
        return error is not None and error.name() == "UNKNOWN_TOPIC_OR_PART"

    def _described(self) -> TopicDescription:
        topic = self._options.topic
        metadata = self._consumer.list_topics(topic, timeout=_ASK_S)
        described = metadata.topics[topic]
        if described.error is not None:
            raise self._problem.explained(described.error)
        identity = TopicIdentity(metadata.cluster_id or "", self._topic_id())
        return TopicDescription(identity, len(described.partitions))

    def assign(self, positions: Mapping[int, KafkaPosition]) -> None:
        """Read these partitions from these positions on, and no others."""
        self._assigned = sorted(positions)
        places = [self._place(partition, positions[partition]) for partition in self._assigned]
        try:
            self._consumer.assign(places)
        except self._kafka.KafkaException as error:
            raise self._problem.explained(error.args[0]) from None

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        """The next messages, as soon as there are so many, or when time is up."""
        try:
            fetched: Sequence[LogMessage] = self._consumer.consume(most, timeout_s)
        except self._kafka.KafkaException as error:
            raise self._problem.explained(error.args[0]) from None
        messages, lost_place, cut_off = [], [], []
        for message in fetched:
            problem = message.error()
            if problem is None:
                messages.append(message)
            elif problem.name() == _OUT_OF_RANGE:
                lost_place.append(message.partition())
            elif problem.name() == _CUT_OFF:
                cut_off.append(message.partition())
            else:
                self._problem.last = problem
        if messages:
            self._problem.last = None
        elif self._problem.last is not None:
            self.describe()  # whether it is over, or what it is
        return Fetched(messages, lost_place, cut_off)

    def bounds(self, partition: int) -> tuple[int, int]:
        """Offsets of the oldest message, and of the next one to be written."""
        place = self._kafka.TopicPartition(self._options.topic, partition)
        try:
            bounds: tuple[int, int] | None
            bounds = self._consumer.get_watermark_offsets(place, timeout=_ASK_S)
        except self._kafka.KafkaException as error:
            raise self._problem.explained(error.args[0]) from None
        if bounds is None:
            raise RemoteError(f"partition {partition} has no leader that answers", hint=AGAIN)
        return bounds

    def ends(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Offsets of the next ones to be written, of those where it is known, without asking."""
        ends = {}
        for partition in partitions:
            place = self._kafka.TopicPartition(self._options.topic, partition)
            bounds = self._consumer.get_watermark_offsets(place, cached=True)
            if bounds is not None and bounds[1] >= 0:
                ends[partition] = bounds[1]
        return ends

    def pause(self) -> None:
        """Fetch nothing until ``resume``."""
        self._consumer.pause(self._places())

    def resume(self) -> None:
        """Fetch again."""
        self._consumer.resume(self._places())

    def show(self, positions: Mapping[int, KafkaPosition]) -> None:
        """Let Kafka's tools see how far it was read; nothing depends on it."""
        places = [
            self._kafka.TopicPartition(self._options.topic, partition, position.offset)
            for partition, position in positions.items()
        ]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except self._kafka.KafkaException as error:
            self._shown(error.args[0], ())

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def _create(self) -> None:
        create, topic = self._options.create, self._options.topic
        if create is None:
            raise RemoteError(
                f"there is no topic {topic}",
                hint="Check topic, or have it made by create: {partitions: 16, replication: 3}",
            )
        new = self._kafka.admin.NewTopic(topic, create.partitions, create.replication)
        try:
            self._admin.create_topics([new])[topic].result(_CREATE_S)
        except self._kafka.KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise self._problem.explained(error.args[0]) from None
        except TimeoutError:
            raise RemoteError("the brokers do not make the topic", hint=AGAIN) from None
        self._log.info("topic_created", partitions=create.partitions)
        for _ in range(_LOOKS):  # brokers hear of it a moment later
            if not self._is_missing():
                return
            self._consumer.poll(_LOOK_S)

    def _topic_id(self) -> str:
        """The id of the topic, which changes when it is made anew; empty: brokers have none."""
        topic = self._options.topic
        names = self._kafka.TopicCollection([topic])
        try:
            described = self._admin.describe_topics(names, request_timeout=_ASK_S)[topic]
            topic_id = str(described.result(_ASK_S).topic_id)
        except self._kafka.KafkaException as error:
            if error.args[0].name() in ("_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"):
                return ""
            raise
        except TimeoutError:
            raise RemoteError("the brokers do not describe the topic", hint=AGAIN) from None
        return "" if set(topic_id) <= {"A", "=", "0", "-"} or topic_id == "None" else topic_id

    def _place(self, partition: int, position: KafkaPosition) -> Any:
        epoch = {"leader_epoch": position.epoch} if position.epoch >= 0 else {}
        return self._kafka.TopicPartition(self._options.topic, partition, position.offset, **epoch)

    def _places(self) -> list[Any]:
        return [self._kafka.TopicPartition(self._options.topic, each) for each in self._assigned]

    def _shown(self, error: Any, _: object) -> None:
        """Called when offsets were written to Kafka, or not."""
        if error is not None and self._is_shown:
            self._log.warning(
                "lag_not_shown", error=error.str(), remedy="Only Kafka's own tools miss it"
            )
        self._is_shown = error is None


def silent_logger() -> logging.Logger:
    """A logger for librdkafka, whose errors come by callbacks as well."""
    logger = logging.getLogger("ragmon.kafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
