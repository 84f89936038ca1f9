"""Settings of the source `kafka`, and what they mean in librdkafka's own names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.errors import SettingsError
from ragmon.http_client import check_secret, secret
from ragmon.mapping import mapping_of

Name = Annotated[str, Field(pattern="^[A-Za-z0-9._-]{1,249}$")]

QUEUE_BYTES = 64 << 20
"""Of messages that were fetched and are not read yet."""

MESSAGE_BYTES = 16 << 20
"""Of one message at most, read or written."""

PRODUCE_S = 20
"""Seconds until a message that no broker took is given up, and its sender told so."""

_PARTITIONERS = {
    "murmur2": "murmur2_random",
    "crc32": "consistent_random",
    "fnv1a": "fnv1a_random",
}
_GUARANTEE = "ragmon's own commits depend on it"
_REFUSED: Mapping[str, str] = {
    "enable.auto.commit": _GUARANTEE,
    "auto.commit.interval.ms": _GUARANTEE,
    "enable.auto.offset.store": _GUARANTEE,
    "auto.offset.reset": "positions are never reset in silence; see on_gap",
    "isolation.level": "records of transactions that were aborted must not count",
    "check.crcs": "a damaged message must not count",
    "allow.auto.create.topics": "use create",
    "enable.partition.eof": _GUARANTEE,
    "queued.max.messages.kbytes": "it bounds ragmon's memory",
    "queue.buffering.max.kbytes": "it bounds ragmon's memory",
    "acks": "what is acknowledged must be in the topic",
    "request.required.acks": "what is acknowledged must be in the topic",
    "enable.idempotence": _GUARANTEE,
    "message.timeout.ms": "a sender waits for it",
    "delivery.timeout.ms": "a sender waits for it",
    "partitioner": "use partitioner",
    "group.id": "use group",
    "bootstrap.servers": "use brokers",
    "metadata.broker.list": "use brokers",
    "security.protocol": "use security.protocol",
    "sasl.mechanism": "use security.mechanism",
    "sasl.mechanisms": "use security.mechanism",
    "sasl.username": "use security.username",
    "sasl.password": "use security.password_file, which is not printed",
    "ssl.ca.location": "use security.ca_file",
    "ssl.certificate.location": "use security.certificate_file",
    "ssl.key.location": "use security.key_file",
    "ssl.key.password": "use a key without a password, in a file that only ragmon may read",
    "plugin.library.paths": "it would load foreign code",
}
_FILES = {
    "ca_file": "ssl.ca.location",
    "certificate_file": "ssl.certificate.location",
    "key_file": "ssl.key.location",
}


class TopicCreation(BaseModel):
    """``create: {partitions: 16, replication: 3}``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    partitions: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Partitions of the topic that is made; 16 to 64 serve, and are not changed later."""
    replication: Annotated[int, Field(ge=1, le=32)] = 3
    """Brokers that hold each partition; 1 where there is one broker."""


class SecurityOptions(BaseModel):
    """``security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, …}``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Encryption (SSL), a user (SASL), both or neither."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """Proof of the user, for the protocols with SASL."""
    username: str = ""
    """User at the brokers."""
    password: SecretStr | None = None
    """Password of the user. A secret: prefer password_file or password_env."""
    password_file: Path | None = None
    """File that holds the password; read again for each new connection."""
    password_env: str | None = None
    """Environment variable that holds the password."""
    ca_file: Path | None = None
    """Certificates (PEM) of the authority that signed the brokers' ones; none: the system's."""
    certificate_file: Path | None = None
    """Certificate (PEM) of ragmon itself, where brokers ask for one."""
    key_file: Path | None = None
    """Key (PEM) of certificate_file."""

    @model_validator(mode="after")
    def _can_be(self) -> "SecurityOptions":
        with_user = self.mechanism not in (None, "OAUTHBEARER")
        has_password = check_secret(self, "password", required=with_user)
        if self.protocol.startswith("SASL") != (self.mechanism is not None):
            raise ValueError("mechanism belongs to the protocols SASL_SSL and SASL_PLAINTEXT")
        if with_user != bool(self.username) or with_user != has_password:
            raise ValueError("username and a password belong to PLAIN and SCRAM-SHA-…")
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file belong together")
        files = (self.ca_file, self.certificate_file)
        if any(files) and not self.protocol.endswith("SSL"):
            raise ValueError("certificates are for the protocols SSL and SASL_SSL")
        return self


class Options(BaseModel):
    """``sources: [{kind: kafka, brokers: [kafka-1:9092], topic: ragmon}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    brokers: Annotated[tuple[str, ...], Field(min_length=1)]
    """Some of the brokers, as HOST:PORT; the others are learned from them."""
    topic: Name
    """Topic to read, all of its partitions."""
    group: Name = "ragmon"
    """Name under which positions are kept in the store, and shown in Kafka's tools as the lag of a
    consumer group. Another name begins with the oldest message; repeated ids count once."""
    format: Literal["queries", "otlp", "otlp_json"] = "queries"
    """Form of a message: queries is a JSON object as POST /v1/queries takes it, or what its header
    ragmon-kind says (feedback, label, verdict); otlp and otlp_json are traces as the kafka exporter
    of the OpenTelemetry Collector writes them."""
    mapping: dict[str, str] = {}
    """JMESPath expressions by field of the record, for queries of another form; none: the messages
    are records."""
    produce: bool = False
    """Write queries that arrive over HTTP to this topic, keyed by their id, in place of the store:
    200 says that they are in the topic, and whoever reads it stores them. For one source, of the
    format queries without a mapping. Feedback and labels over HTTP find their query as before."""
    partitioner: Literal["murmur2", "crc32", "fnv1a"] = "murmur2"
    """produce: choice of the partition by the key. Feedback that others write to the topic finds
    its query only where theirs is the same: murmur2 is that of Java, crc32 of librdkafka
    (confluent-kafka), fnv1a of the OpenTelemetry Collector."""
    create: TopicCreation | None = None
    """Make the topic when it is missing, such as {partitions: 16, replication: 3}; none: say so."""
    linger_s: Annotated[float, Field(gt=0, le=10)] = 0.25
    """Seconds for which messages are gathered into one commit."""
    on_gap: Literal["report", "stop"] = "report"
    """Reaction to messages that Kafka deleted before they were read: report counts them in
    ragmon_log_lost_total and goes on, stop leaves the partition until somebody decides."""
    security: SecurityOptions = SecurityOptions()
    """Encryption and credentials: {protocol, mechanism, username, password_file, ca_file,
    certificate_file, key_file}."""
    options: dict[str, str | int | float | bool] = {}
    """More settings by librdkafka's own names, such as {client.rack: eu-1a}; those that would break
    what ragmon promises are refused."""

    @model_validator(mode="after")
    def _can_be(self) -> "Options":
        for name in self.options:
            if reason := _REFUSED.get(name):
                raise ValueError(f"options: {name} cannot be set: {reason}")
        if self.mapping and self.format != "queries":
            raise ValueError("mapping is for the format queries")
        if self.produce and (self.mapping or self.format != "queries"):
            raise ValueError("produce is for the format queries without a mapping")
        mapping_of(self.mapping, "queries")
        for broker in self.brokers:
            host, _, port = broker.rpartition(":")
            if not host or not port.isdecimal() or "/" in broker or "," in broker:
                raise ValueError(f"brokers: {broker!r} is not HOST:PORT")
        return self

    @property
    def name(self) -> str:
        """Name of the source, under which its positions are kept."""
        return f"kafka:{self.group}:{self.topic}"


def client_settings(options: Options) -> dict[str, str | int | float | bool]:
    """Settings of a connection; secrets and files are read anew.

    Raises:
        SettingsError: a file or variable is missing or empty.
    """
    security = options.security
    settings: dict[str, str | int | float | bool] = {
        "client.id": "ragmon",
        "reconnect.backoff.ms": 250,
        "socket.keepalive.enable": True,
        **options.options,
        "bootstrap.servers": ",".join(options.brokers),
        "security.protocol": security.protocol,
    }
    if security.mechanism is not None:
        settings["sasl.mechanisms"] = security.mechanism
    if security.username:
        settings["sasl.username"] = security.username
        settings["sasl.password"] = secret(security, "password")
    for name, setting in _FILES.items():
        path: Path | None = getattr(security, name)
        if path is not None:
            settings[setting] = _readable(path, f"security.{name}")
    return settings


def consumer_settings(options: Options) -> dict[str, str | int | float | bool]:
    """Settings of a consumer, with those that ragmon's promises rest on.

    Raises:
        SettingsError: a file or variable is missing or empty.
    """
    return client_settings(options) | {
        "group.id": options.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "check.crcs": True,
        "allow.auto.create.topics": False,
        "queued.max.messages.kbytes": QUEUE_BYTES >> 10,
    }


def producer_settings(options: Options) -> dict[str, str | int | float | bool]:
    """Settings of a producer, with those that ragmon's promises rest on.

    Raises:
        SettingsError: a file or variable is missing or empty.
    """
    settings: dict[str, str | int | float | bool] = {
        "compression.type": "zstd",
        "linger.ms": 5,
        "message.max.bytes": MESSAGE_BYTES,
    }
    settings |= client_settings(options)
    return settings | {
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": _PARTITIONERS[options.partitioner],
        "message.timeout.ms": 1_000 * PRODUCE_S,
        "queue.buffering.max.kbytes": QUEUE_BYTES >> 10,
    }


def _readable(path: Path, setting: str) -> str:
    try:
        path.open("rb").close()
    except OSError as error:
        raise SettingsError(f"{setting}: cannot read {path}: {error.strerror}") from None
    return str(path)
