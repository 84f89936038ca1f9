"""A topic of Kafka: queries, feedback, labels, verdicts or traces, each message once.

It needs the extra ``cluster``. Offsets of all partitions are committed in the transaction of the
records before them, and Kafka's own are ignored, so that nothing that dies repeats or skips one.
"""

from collections.abc import Callable

from ragmon.clock import Clock
from ragmon.records import QueryRecord
from ragmon.sources import SourceContext
from ragmon.sources.kafka.client import KafkaLog, require_client
from ragmon.sources.kafka.group import GroupLog
from ragmon.sources.kafka.options import Options, consumer_settings
from ragmon.sources.kafka.places import TopicPlaces
from ragmon.sources.kafka.producer import KafkaProducer
from ragmon.sources.kafka.producing import TopicWriter
from ragmon.sources.kafka.shared import PartitionShards, SharedSource
from ragmon.sources.kafka.source import KafkaSource


def check(options: Options) -> None:
    """Look for what is missing here, without asking a broker.

    Raises:
        SettingsError: the client, a file, a variable or an option of librdkafka.
    """
    require_client()
    consumer_settings(options)
    KafkaLog(options).close()
    if options.produce:
        KafkaProducer(options)


def position(options: Options) -> str:
    """Name of the position that a source keeps; two sources of one daemon cannot share it."""
    return f"group {options.group} in topic {options.topic}"


def places(options: Options) -> TopicPlaces:
    """Positions in the topic, to be set by hand."""
    require_client()
    return TopicPlaces(options.name, KafkaLog(options))


def build_shared(options: Options, context: SourceContext, shards: PartitionShards) -> SharedSource:
    """A source that reads the partitions which the group gives to this process."""
    require_client()
    return SharedSource(options, context, shards, lambda membership: GroupLog(options, membership))


def build_writer(
    options: Options,
    admit: Callable[[QueryRecord], QueryRecord],
    clock: Clock,
    *,
    queue_bytes: int,
    on_batch: Callable[[float], None],
) -> TopicWriter:
    """A writer of queries to the topic; see ``TopicWriter``."""
    require_client()
    return TopicWriter(
        lambda: KafkaProducer(options), admit, clock, queue_bytes=queue_bytes, on_batch=on_batch
    )


def build(options: Options, context: SourceContext) -> KafkaSource:
    """A source that reads one topic."""
    require_client()
    return KafkaSource(options, context, lambda: KafkaLog(options))
