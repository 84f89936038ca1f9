"""A real Kafka: one process of Java as broker and controller, that can be killed and restarted."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import module
from tests.support.tools import OWN, program
from tests.support.wait import eventually

_JARS = OWN / "kafka"
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
inter.broker.listener.name={protocol}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=20000000
socket.request.max.bytes=50000000
"""


@cache
def _jars() -> Path:
    """The folder of the installed jars; without, a skip on a laptop and a failure in CI."""
    program("java")
    if not (_JARS / ".complete").exists():
        missing = "kafka is not installed; run `make tools` where there are mvn and java"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return _JARS


class Kafka:
    """A broker on a port of its own, with its data in a folder."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._jars = _jars()
        self._kafka = module("confluent_kafka")
        self._folder = folder
        self.port, controller = _free_ports(2)
        self.brokers = f"127.0.0.1:{self.port}"
        self._file = folder / "server.properties"
        more = dict(settings or {})
        protocol = more.pop("protocol", "PLAINTEXT")
        text = _SETTINGS.format(
            port=self.port, controller=controller, folder=folder, protocol=protocol
        )
        self._is_open = protocol == "PLAINTEXT"
        lines = [f"{name}={value}\n" for name, value in more.items()]
        self._file.write_text(text + "".join(lines), encoding="utf-8")
        self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", self._file).wait(60)
        self.start()

    def start(self, within_s: float = 60.0) -> None:
        self._process = self._java("kafka.Kafka", self._file)
        try:
            eventually(self._answers, "kafka answers", within_s)
        except AssertionError as error:
            said = self._log.read_text(encoding="utf-8")[-2_000:]
            raise AssertionError(f"{error}: {said}") from None

    def kill(self) -> None:
        """As a power cut would end it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def client(self, kind: str = "Producer", **settings: Any) -> Any:
        given = {"bootstrap.servers": self.brokers, "log_level": 0} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        if kind == "AdminClient":
            return module("confluent_kafka.admin").AdminClient(given)
        return getattr(self._kafka, kind)(given)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        new = module("confluent_kafka.admin").NewTopic(topic, partitions, 1, config=config)
        admin = self.client("AdminClient")  # kept until the answer is there
        admin.create_topics([new])[topic].result(30)

    def has_made(self, topic: str, partitions: int = 1) -> bool:
        """True once a topic is made anew; its deletion may still be under way."""
        try:
            self.create(topic, partitions)
        except self._kafka.KafkaException as error:
            if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                return False
            raise
        return True

    def delete(self, topic: str) -> None:
        admin = self.client("AdminClient")
        admin.delete_topics([topic])[topic].result(30)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages before an offset, as retention does."""
        place = self._kafka.TopicPartition(topic, partition, offset)
        admin = self.client("AdminClient")
        for future in admin.delete_records([place]).values():
            future.result(30)

    def send(self, topic: str, *values: bytes | None, **message: Any) -> None:
        """Produce messages, and wait until they are in the log."""
        settings = message.pop("settings", {})
        producer = self.client(message_max_bytes=20_000_000, **settings)
        for value in values:
            producer.produce(topic, value=value, **message)
        assert producer.flush(30) == 0

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")[-2_000:]
        try:
            if self._is_open:
                self.client("AdminClient").list_topics(timeout=2)
            else:
                socket.create_connection(("127.0.0.1", self.port), 2).close()
        except (OSError, self._kafka.KafkaException):
            return False
        return True

    @property
    def _log(self) -> Path:
        return self._folder / "kafka.log"

    def _java(self, main: str, *arguments: str | Path) -> "subprocess.Popen[bytes]":
        command = [program("java"), *_JAVA, "-cp", f"{self._jars}/*", main, *map(str, arguments)]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)


@contextmanager
def broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Kafka]:
    """A broker for as long as the block runs."""
    kafka = Kafka(folder, settings)
    try:
        yield kafka
    finally:
        kafka.kill()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
