"""Accept headers as Prometheus sends them, and as nobody should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.content_coding import choose_coding
from ragmon.exposition.negotiation import OPENMETRICS, PROTOBUF, TEXT, TEXT_1, choose_format

PROTO = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_2_NATIVE = (
    f"{PROTO},application/openmetrics-text;version=1.0.0;q=0.8,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_NATIVE = f"{PROTO};q=0.7,{PROMETHEUS_3}"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", TEXT, id="nothing is asked for"),
        pytest.param("*/*", TEXT, id="curl"),
        pytest.param("text/html,application/xhtml+xml,*/*;q=0.8", TEXT, id="a browser"),
        pytest.param(PROMETHEUS_2, OPENMETRICS, id="Prometheus 2.42"),
        pytest.param(PROMETHEUS_2_NATIVE, PROTOBUF, id="2.42 with native histograms"),
        pytest.param(PROMETHEUS_3, OPENMETRICS, id="Prometheus 3"),
        pytest.param(PROMETHEUS_3_NATIVE, PROTOBUF, id="Prometheus 3 with native histograms"),
        pytest.param("text/plain", TEXT, id="text without a version is the old one"),
        pytest.param("text/plain;version=1.0.0", TEXT_1, id="text of the new version"),
        pytest.param("text/*", TEXT, id="any text"),
        pytest.param("application/*", OPENMETRICS, id="any application"),
        pytest.param("application/openmetrics-text", OPENMETRICS, id="without a version"),
        pytest.param(
            "application/openmetrics-text;version=0.0.1,text/plain;q=0.1", TEXT,
            id="a version that is not written",
        ),
        pytest.param(
            "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0",
            OPENMETRICS, id="quality counts, not order",
        ),
        pytest.param(
            "application/openmetrics-text,text/plain;version=0.0.4", TEXT,
            id="of equal quality, the more specific",
        ),
        pytest.param(
            "text/plain;q=0,*/*;q=0.5", OPENMETRICS, id="what is refused by name is not sent"
        ),
        pytest.param(f"{PROTO.replace('delimited', 'text')},text/plain;q=0.2", TEXT,
                     id="an encoding of protobuf that is not written"),
        pytest.param("application/vnd.google.protobuf", TEXT, id="protobuf of an unknown message"),
        pytest.param("APPLICATION/OpenMetrics-Text; Version=1.0.0 ; Q=1", OPENMETRICS, id="case"),
        pytest.param("image/png", TEXT, id="nothing that there is"),
        pytest.param("*/*;q=0", TEXT, id="nothing at all"),
        pytest.param("text/plain;version=1.0.0;q=7", TEXT, id="a quality out of range"),
        pytest.param("text/plain;version=1.0.0;q=nan", TEXT, id="a quality that is no number"),
        pytest.param(";;;,,=;q", TEXT, id="noise"),
    ],
)  # fmt: skip
def test_the_format_is_what_the_scraper_likes_best(accept, expected):
    chosen = choose_format(accept)
    assert chosen[:3] == expected[:3]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (
            PROMETHEUS_3,
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
        ),
        (
            PROTO,
            PROTO.replace(";", "; "),
        ),
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "text/plain;version=1.0.0;escaping=nonsense",
            "text/plain; version=1.0.0; charset=utf-8; escaping=underscores",
        ),
        ("text/plain;escaping=allow-utf-8", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_the_answer_says_version_and_escaping(accept, content_type):
    assert choose_format(accept).content_type == content_type


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.lists(
    st.sampled_from(["text/plain", "*/*", ";q=", "0.5", ",", ";", "version=", "1.0.0", '"', "="])
).map("".join))  # fmt: skip
def test_no_header_fails(header):
    assert choose_format(header).content_type
    assert choose_coding(header) in ("", "gzip", "zstd")


def test_a_header_without_end_is_read_to_a_limit():
    assert choose_format("text/plain;q=0.1," * 1_000 + PROMETHEUS_3).kind == "text"
    assert choose_format(PROMETHEUS_3 + ",x/y" * 1_000).kind == "openmetrics"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", ""),
        ("identity", ""),
        ("gzip", "gzip"),
        ("GZip ;q=0.5", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("*", "zstd"),
        ("*;q=0.5, zstd;q=0", "gzip"),
        ("identity;q=1, gzip;q=0.5", ""),
        ("gzip, identity", "gzip"),
        ("br", ""),
        ("gzip;q=2", ""),
    ],
)
def test_the_coding_is_what_the_client_likes_best(header, expected):
    assert choose_coding(header) == expected
