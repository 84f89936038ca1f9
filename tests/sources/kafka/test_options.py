"""Settings of the source ``kafka``: what is refused, and what librdkafka is told."""

import pytest

from ragmon.errors import SettingsError
from ragmon.plugins import resolve
from ragmon.sources.kafka.options import Options, consumer_settings

BROKERS = {"brokers": ["kafka-1:9092", "kafka-2:9092"], "topic": "rag"}


def refused(**options):
    with pytest.raises(SettingsError) as caught:
        resolve("ragmon.sources", "sources.0", {"kind": "kafka"} | BROKERS | options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"brokers": []}, "brokers", id="no brokers"),
        pytest.param({"brokers": ["kafka"]}, "'kafka' is not HOST:PORT", id="a broker's port"),
        pytest.param({"brokers": ["http://k:9092"]}, "is not HOST:PORT", id="a URL"),
        pytest.param({"topic": "a b"}, "topic", id="a topic's name"),
        pytest.param({"format": "avro"}, "format", id="a format"),
        pytest.param({"create": {"partitions": 0}}, "create.partitions", id="no partitions"),
        pytest.param({"on_gap": "reset"}, "on_gap", id="a silent reset"),
        pytest.param(
            {"format": "otlp", "mapping": {"query": "q"}}, "mapping is for", id="a mapped trace"
        ),
        pytest.param(
            {"security": {"protocol": "SASL_SSL"}}, "mechanism belongs", id="SASL without how"
        ),
        pytest.param({"security": {"mechanism": "PLAIN"}}, "password", id="no password"),
        pytest.param(
            {"security": {"protocol": "SSL", "key_file": "k"}}, "belong together", id="a key alone"
        ),
        pytest.param({"security": {"ca_file": "ca"}}, "certificates are for", id="TLS without TLS"),
        pytest.param({"brokrs": []}, "did you mean `brokers`", id="a typo"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options, says):
    assert says in refused(**options)


@pytest.mark.parametrize(
    "name",
    ["enable.auto.commit", "auto.offset.reset", "isolation.level", "group.id", "sasl.password"],
)
def test_options_that_break_promises_are_refused_with_what_to_do(name):
    text = refused(options={name: "x"})
    assert f"{name} cannot be set: " in text


def test_librdkafka_is_told_what_the_promises_rest_on(tmp_path):
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    security = {
        "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "rag",
        "password_file": password,
    }  # fmt: skip
    options = Options(**BROKERS, security=security, options={"client.rack": "eu-1a"})
    settings = consumer_settings(options)
    assert settings["bootstrap.servers"] == "kafka-1:9092,kafka-2:9092"
    assert settings["sasl.password"] == "s3cret"
    assert settings["client.rack"] == "eu-1a"
    assert settings["auto.offset.reset"] == "error"
    assert settings["enable.auto.commit"] is False
    assert settings["queued.max.messages.kbytes"] == 65_536
    password.write_text("rotated")
    assert consumer_settings(options)["sasl.password"] == "rotated"
    assert "rotated" not in repr(options)


@pytest.mark.parametrize("name", ["password_file", "ca_file"])
def test_a_missing_file_is_named_with_its_setting(tmp_path, name):
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "rag"}
    if name == "ca_file":
        security["password"] = "x"
    options = Options(**BROKERS, security=security | {name: tmp_path / "absent"})
    with pytest.raises(SettingsError, match=f"{name}: cannot read .*absent"):
        consumer_settings(options)
