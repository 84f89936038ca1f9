"""A topic of Kafka: queries, feedback, labels, verdicts or traces, each message once.

It needs the extra ``cluster``. Offsets of all partitions are committed in the transaction of the
records before them, and Kafka's own are ignored, so that nothing that dies repeats or skips one.
"""

from ragmon.sources import SourceContext
from ragmon.sources.kafka.client import KafkaLog, require_client
from ragmon.sources.kafka.group import GroupLog
from ragmon.sources.kafka.options import Options, consumer_settings
from ragmon.sources.kafka.places import TopicPlaces
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


def build(options: Options, context: SourceContext) -> KafkaSource:
    """A source that reads one topic."""
    require_client()
    return KafkaSource(options, context, lambda: KafkaLog(options))
