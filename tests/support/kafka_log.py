"""A topic in memory: a fake of ``PartitionedLog`` with a disk that outlives its source."""

import msgspec

from ragmon.errors import RemoteError
from ragmon.sources import SourceContext
from ragmon.sources.kafka.log import Fetched, TopicDescription
from ragmon.sources.kafka.options import Options
from ragmon.sources.kafka.positions import TopicIdentity
from ragmon.sources.kafka.source import KafkaSource
from tests.support.jsonl import NOW, Disk


class Message(msgspec.Struct, frozen=True):
    """One message, as confluent_kafka's."""

    place: tuple[int, int]
    content: bytes | None
    name: bytes | None = None
    more: tuple[tuple[str, bytes], ...] = ()
    leader: int = 0

    def error(self):
        return None

    def partition(self):
        return self.place[0]

    def offset(self):
        return self.place[1]

    def leader_epoch(self):
        return self.leader

    def key(self):
        return self.name

    def value(self):
        return self.content

    def headers(self):
        return list(self.more) or None

    def timestamp(self):
        return 1, int(NOW * 1e3)


class Topic:
    """Messages of some partitions, which outlive every connection."""

    def __init__(self, partitions: int = 1) -> None:
        self.identity = TopicIdentity("cluster", "topic")
        self.partitions: list[list[Message]] = [[] for _ in range(partitions)]
        self.oldest = [0] * partitions
        self.trouble: list[Exception] = []
        self.shown: dict[int, int] = {}

    def write(self, *ids: str, partition: int = 0, **message) -> None:
        for each in ids:
            content = b'{"query_id":"%s","query":"?"}' % each.encode()
            self.write_raw(content, partition=partition, **({"key": each.encode()} | message))

    def write_raw(self, content, *, partition=0, key=b"key", kind=b""):
        place = (partition, len(self.partitions[partition]))
        more = (("ragmon-kind", kind),) if kind else ()
        self.partitions[partition].append(Message(place, content, key, more))


class FakeLog:
    """One connection to a topic."""

    def __init__(self, topic: Topic, clock) -> None:
        self._topic = topic
        self._clock = clock
        self._next: dict[int, int] = {}
        self.paused = 0
        self.is_closed = False

    def describe(self):
        return TopicDescription(self._topic.identity, len(self._topic.partitions))

    def assign(self, positions):
        self._next = {
            number: self._topic.oldest[number] if each.offset < 0 else each.offset
            for number, each in positions.items()
        }

    def fetch(self, most, timeout_s):
        if self._topic.trouble:
            raise self._topic.trouble.pop(0)
        messages, lost_place = [], []
        for number, start in self._next.items():
            written = self._topic.partitions[number]
            if not self._topic.oldest[number] <= start <= len(written):
                lost_place.append(number)
                continue
            some = written[start : start + most - len(messages)]
            self._next[number] += len(some)
            messages += some
        if len(messages) < most:
            self._clock.sleep(timeout_s)
        return Fetched(messages, lost_place, [])

    def bounds(self, partition):
        return self._topic.oldest[partition], len(self._topic.partitions[partition])

    def ends(self, partitions):
        return {each: len(self._topic.partitions[each]) for each in partitions}

    def pause(self):
        self.paused += 1

    def resume(self):
        self.paused -= 1

    def show(self, positions):
        self._topic.shown |= {number: each.offset for number, each in positions.items()}

    def close(self):
        self.is_closed = True


class Reader:
    """A source that is restarted at will, its disk, and the topic."""

    def __init__(self, partitions: int = 1, kind=KafkaSource, spans=None, **options) -> None:
        self.topic = Topic(partitions)
        self.disk = Disk()
        self.options = Options(brokers=["kafka:9092"], topic="rag", **options)
        self.connections: list[FakeLog] = []
        self._kind = kind
        self._spans = spans
        self.restart()

    def restart(self) -> None:
        context = SourceContext(
            sink=self.disk,
            counters=self.disk,
            clock=self.disk.clock,
            offset=self.disk.offsets.get,
            retention_s=7 * 86_400,
            max_skew_s=300,
            spans=self._spans,
        )
        self.source = self._kind(self.options, context, self._open)

    def _open(self) -> FakeLog:
        if self.topic.trouble:
            raise self.topic.trouble.pop(0)
        self.connections.append(FakeLog(self.topic, self.disk.clock))
        return self.connections[-1]

    def read(self) -> list[str]:
        """Everything there is to read, whatever goes wrong meanwhile."""
        for _ in range(50):
            try:
                if not self.source.step():
                    return self.disk.records
            except RemoteError:
                continue
        raise AssertionError("it does not come to an end")
