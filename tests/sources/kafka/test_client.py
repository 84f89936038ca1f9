"""The source on a real Kafka: codecs, sizes, gaps, and errors that name the setting."""

import pytest

from ragmon.clock import SystemClock
from ragmon.errors import RemoteError, SettingsError, StoreError
from ragmon.sources import SourceContext
from ragmon.sources.kafka import build, check
from ragmon.sources.kafka.options import Options
from ragmon.sources.kafka.source import KafkaSource
from tests.support.certificates import Authority
from tests.support.jsonl import Disk
from tests.support.kafka import broker
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end


class Following:
    """A source of one topic of a broker, and what it kept."""

    def __init__(self, brokers, topic, **options):
        self.disk = Disk()
        self._options = Options(brokers=[brokers], topic=topic, linger_s=0.05, **options)
        self.restart()

    def restart(self):
        context = SourceContext(
            sink=self.disk,
            counters=self.disk,
            clock=SystemClock(),
            offset=self.disk.offsets.get,
            retention_s=7 * 86_400,
            max_skew_s=300,
        )
        self.source = build(self._options, context)

    def until(self, what, condition):
        def turned():
            self.source.step()
            return condition()

        eventually(turned, what, 30)


@pytest.fixture
def follow(kafka):
    following = []

    def make(topic, partitions=1, **options):
        if partitions:
            kafka.create(topic, partitions)
        following.append(Following(kafka.brokers, topic, **options))
        return following[-1]

    yield make
    for each in following:
        each.source.begin_again()


def line(query_id):
    return b'{"query_id":"%s","query":"?"}' % query_id.encode()


def test_every_codec_is_read(kafka, follow):
    following = follow("codecs", partitions=3)
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        kafka.send(
            "codecs", *[line(f"{codec}{each}") for each in range(20)], key=codec,
            settings={"compression_type": codec},
        )  # fmt: skip
    following.until("all are read", lambda: len(following.disk.records) == 100)
    assert len(set(following.disk.records)) == 100


def test_ten_megabytes_are_refused_and_the_next_is_read(kafka, follow):
    following = follow("large")
    kafka.send("large", b'{"query":"%s"}' % (b"x" * 10_000_000), line("after"))
    following.until("the next is read", lambda: following.disk.records == ["after"])
    assert following.disk.counted["invalid"] == 1


def test_a_restart_reads_on_where_the_store_is_whatever_kafka_says(kafka, follow):
    following = follow("restart")
    kafka.send("restart", line("a"), line("b"))
    following.until("both are read", lambda: len(following.disk.records) == 2)
    following.source.begin_again()
    following.restart()
    kafka.send("restart", line("c"))
    following.until("the new one is read", lambda: following.disk.records == ["a", "b", "c"])
    following.disk.offsets.clear()  # as if the store were lost: its offsets go with it
    following.source.begin_again()
    following.restart()
    following.until("all are read again", lambda: len(following.disk.records) == 6)


class GoesOn(KafkaSource):
    """A consumer that does not go back to the stored position after an error."""

    def begin_again(self):
        pass


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        pytest.param(KafkaSource, 0, id="one that goes back to the stored position loses none"),
        pytest.param(GoesOn, 30, id="one that goes on loses what failed"),
    ],
)
def test_commits_that_fail(kafka, follow, kind, lost):
    topic = f"failing-{lost}"
    following = follow(topic, partitions=2)
    source = following.source
    following.source = kind(source._options, source._context, source._open_log)
    for round_ in range(3):
        kafka.send(topic, *[line(f"q{10 * round_ + each}") for each in range(10)])
        following.disk.trouble = [StoreError("the disk is full")]
        eventually(lambda: refused(following), "the commit fails", 30)
    kafka.send(topic, line("last"))
    following.until("the last is read", lambda: "last" in following.disk.records)
    KafkaSource.begin_again(following.source)
    expected = {f"q{each}" for each in range(30)}
    assert following.disk.records.count("last") == 1
    assert len(expected - set(following.disk.records)) == lost


def refused(following):
    """True once the batch was read whose commit fails; it may be all ten messages or some."""
    try:
        following.source.step()
    except StoreError:
        return True
    return False


def test_deleted_messages_are_counted_as_lost(kafka, follow):
    following = follow("gap")
    kafka.send("gap", *[line(f"q{each}") for each in range(10)])
    following.until("all are read", lambda: len(following.disk.records) == 10)
    following.source.begin_again()
    kafka.send("gap", *[line(f"q{each}") for each in range(10, 30)])
    kafka.delete_before("gap", 0, 25)
    following.restart()
    following.until("the rest is read", lambda: len(following.disk.records) == 15)
    assert following.source.figures.lost == 15
    assert following.disk.records[10:] == [f"q{each}" for each in range(25, 30)]


def test_a_topic_that_was_made_anew_is_refused(kafka, follow):
    following = follow("anew")
    kafka.send("anew", line("old"))
    following.until("it is read", lambda: following.disk.records == ["old"])
    following.source.begin_again()
    kafka.delete("anew")
    eventually(lambda: kafka.has_made("anew"), "the topic is made again")
    kafka.send("anew", line("new"), line("newer"))
    following.restart()
    following.until("it is noticed", lambda: following.source.figures.stopped["topic_made_anew"])
    following.source.step()
    assert following.disk.records == ["old"]


def test_a_missing_topic_is_named_or_made(kafka, follow):
    following = follow("missing", partitions=0)
    with pytest.raises(RemoteError, match=r"there is no topic missing.*create"):
        following.source.step()
    following = follow("made", partitions=0, create={"partitions": 7, "replication": 1})
    following.source.step()
    assert len(following.source.assignment.positions) == 7
    following = follow("too-many", partitions=0, create={"partitions": 1, "replication": 9})
    with pytest.raises(RemoteError, match=r"create\.replication"):
        following.source.step()


def test_a_broker_that_is_down_is_named_with_its_setting(monkeypatch):
    monkeypatch.setattr("ragmon.sources.kafka.client._ASK_S", 1.0)
    following = Following("127.0.0.1:1", "any")
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:1: .*Check brokers"):
        following.source.step()
    following = Following("no-such-host.invalid:9092", "any")
    with pytest.raises(RemoteError, match="Check the hosts in brokers"):
        following.source.step()


def test_an_option_that_librdkafka_does_not_know_stops_the_start():
    with pytest.raises(SettingsError, match=r'property: "fetch\.maximum"'):
        check(Options(brokers=["k:9092"], topic="t", options={"fetch.maximum": 1}))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker with TLS and users, and the authority that it is known by."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder / "authority")
    pair = authority.issue("broker")
    chain = folder / "broker.pem"
    chain.write_bytes(pair.key.read_bytes() + pair.cert.read_bytes())
    users = 'user_admin="admin" user_rag="right"'
    settings = {
        "protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(chain),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.cert),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="admin" password="admin" {users};'
        ),
    }
    with broker(folder, settings) as running:
        yield running, authority


@pytest.mark.parametrize(
    ("host", "changes", "says"),
    [
        pytest.param("127.0.0.1", {"password": "wrong"}, "password_file", id="a wrong password"),
        pytest.param("127.0.0.1", {"ca_file": None}, "security.ca_file", id="another authority"),
        pytest.param("127.1", {}, "name the hosts in brokers", id="a name not in the certificate"),
        pytest.param(
            "127.0.0.1", {"protocol": "SASL_PLAINTEXT", "ca_file": None}, "security.protocol",
            id="no TLS",
        ),
    ],
)  # fmt: skip
def test_credentials_and_certificates_that_do_not_do_are_named(
    guarded, monkeypatch, host, changes, says
):
    monkeypatch.setattr("ragmon.sources.kafka.client._ASK_S", 2.0)
    running, authority = guarded
    security = {
        "protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "rag", "password": "right",
        "ca_file": authority.cert,
    }  # fmt: skip
    following = Following(f"{host}:{running.port}", "any", security=security | changes)
    with pytest.raises(RemoteError, match=says):
        following.source.step()


def test_a_user_with_tls_reads(guarded):
    running, authority = guarded
    security = {
        "protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "rag", "password": "right",
        "ca_file": authority.cert,
    }  # fmt: skip
    create = {"partitions": 1, "replication": 1}
    following = Following(running.brokers, "guarded", security=security, create=create)
    following.source.step()
    running.send(
        "guarded", line("a"),
        settings={
            "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "rag",
            "sasl_password": "right", "ssl_ca_location": str(authority.cert),
        },
    )  # fmt: skip
    following.until("it is read", lambda: following.disk.records == ["a"])
    following.source.begin_again()
