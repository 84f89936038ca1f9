"""All formats are made of the same families, and say the same."""

import math
from collections.abc import Iterator

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from ragmon.exposition import page
from ragmon.exposition.negotiation import OPENMETRICS, PROTOBUF, TEXT, TEXT_1, choose_format
from ragmon.exposition.protobuf import ProtobufRenderer
from ragmon.exposition.text import (
    Exemplar,
    Family,
    HistogramSample,
    NativeBuckets,
    bound,
    series,
)
from tests.support.golden import same
from tests.support.metrics import samples

Value = tuple[str, frozenset[tuple[str, str]]]

LABELS = st.dictionaries(
    st.sampled_from(["pipeline", "version", "mode"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
).map(lambda labels: tuple(labels.items()))
NUMBERS = st.floats(allow_nan=False) | st.integers(0, 1 << 60).map(float)
COUNTS = st.integers(0, 1 << 40)


@st.composite
def families(draw) -> list[Family]:
    drawn = []
    for at, kind in enumerate(draw(st.lists(st.sampled_from(["gauge", "counter"]), max_size=4))):
        name = f"ragmon_m{at}" + ("_total" if kind == "counter" else "")
        numbers = st.floats(0, 1e300) if kind == "counter" else NUMBERS
        values = draw(st.dictionaries(LABELS.map(frozenset), numbers, max_size=4))
        shown = [(series(name, tuple(labels)), value) for labels, value in values.items()]
        drawn.append(Family(name, kind, draw(st.text('ab \\"\n', max_size=9)), shown))
    edges = sorted(draw(st.sets(st.floats(0.001, 1e6), max_size=4)))
    counts = draw(st.lists(COUNTS, min_size=len(edges) + 1, max_size=len(edges) + 1))
    histogram = HistogramSample(draw(LABELS), edges, counts, draw(st.floats(0, 1e300)))
    return [*drawn, Family("ragmon_h", "histogram", "Help.", (), [histogram])]


def of_text(text: bytes) -> dict[Value, float]:
    shown = {}
    for sample in samples(text.decode()):
        labels = dict(sample.labels)
        if "le" in labels:
            labels["le"] = bound(float(labels["le"]))
        shown[sample.name, frozenset(labels.items())] = sample.value
    return shown


def messages(body: bytes) -> Iterator:
    """The messages of an answer in protobuf, each after its length."""
    message = ProtobufRenderer()._messages["MetricFamily"]
    at = 0
    while at < len(body):
        length = shift = 0
        while True:
            byte = body[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield message.FromString(body[at : at + length])
        at += length


def of_protobuf(body: bytes) -> dict[Value, float]:
    """As Prometheus turns messages into series."""
    shown = {}
    for family in messages(body):
        for metric in family.metric:
            labels = {(pair.name, pair.value) for pair in metric.label}
            if family.type == 4:
                histogram = metric.histogram
                for bucket in histogram.bucket:
                    le = ("le", bound(bucket.upper_bound))
                    name = f"{family.name}_bucket"
                    shown[name, frozenset({*labels, le})] = float(bucket.cumulative_count)
                shown[f"{family.name}_sum", frozenset(labels)] = histogram.sample_sum
                shown[f"{family.name}_count", frozenset(labels)] = float(histogram.sample_count)
            else:
                value = metric.gauge.value if family.type == 1 else metric.counter.value
                shown[family.name, frozenset(labels)] = value
    return shown


@given(families())
def test_every_format_says_the_same(drawn):
    text = of_text(page(drawn, TEXT))
    assert text
    assert of_text(page(drawn, TEXT_1)) == text
    assert of_text(page(drawn, OPENMETRICS)) == text
    assert of_protobuf(page(drawn, PROTOBUF)) == text


SPOKEN = Family(
    "ragmon_query_duration_seconds",
    "histogram",
    "Latency.",
    (),
    [
        HistogramSample(
            (("pipeline", "docs"),),
            [1.0],
            [3, 4],
            9.5,
            {1: Exemplar("4bf92f", 1.5, 1_750_000_000.123)},
            NativeBuckets(5, 2.0**-14, 1, -3, [2, 0, 0, 1, 3]),
        )
    ],
)


def test_a_native_histogram_stands_beside_its_classic_buckets():
    (family,) = messages(page([SPOKEN], PROTOBUF))
    assert (family.name, family.help, family.type) == (SPOKEN.name, "Latency.", 4)
    histogram = family.metric[0].histogram
    assert [bucket.cumulative_count for bucket in histogram.bucket] == [3, 7]
    assert histogram.bucket[1].upper_bound == math.inf
    exemplar = histogram.bucket[1].exemplar
    assert exemplar.label[0].value == "4bf92f"
    assert exemplar.value == 1.5
    assert exemplar.timestamp.ToMilliseconds() == 1_750_000_000_123
    assert (histogram.schema, histogram.zero_threshold, histogram.zero_count) == (5, 2.0**-14, 1)
    assert [(span.offset, span.length) for span in histogram.positive_span] == [(-3, 1), (2, 2)]
    assert list(histogram.positive_delta) == [2, -1, 2]
    assert histogram.sample_count == 7


def test_a_summary_without_count_is_a_gauge_in_protobuf():
    # Prometheus would make a count and a sum of 0 of it, which nothing says.
    labels = (("quantile", "0.5"),)
    summary = Family("ragmon_latency_seconds", "summary", "H.", [(series("x", labels), 0.25)])
    (family,) = messages(page([summary], PROTOBUF))
    assert family.type == 1
    assert family.metric[0].gauge.value == 0.25


def test_a_sum_that_can_fall_is_not_a_number_in_protobuf():
    family = Family("h", "histogram", "H.", (), [HistogramSample((), [0.0], [3, 0], -7.5)])
    (message,) = messages(page([family], PROTOBUF))
    assert math.isnan(message.metric[0].histogram.sample_sum)


def test_what_is_no_longer_shown_is_not_kept():
    renderer = ProtobufRenderer()
    for at in range(50):
        name = f"p{at}"
        renderer.render(
            [Family("g", "gauge", "H.", [(series("g", (("pipeline", name),)), 1.0)])], ""
        )
    assert len(renderer._labels) == 1


ODD = Family(
    "rag.hits", "gauge", "H.", [(series("rag.hits", (("my.tag", "a"), ("plain_one", "b"))), 1.0)]
)


@pytest.mark.parametrize(
    ("escaping", "line"),
    [
        ("allow-utf-8", '{"rag.hits","my.tag"="a",plain_one="b"} 1'),
        ("underscores", 'rag_hits{my_tag="a",plain_one="b"} 1'),
        ("dots", 'rag_dot_hits{my_dot_tag="a",plain_one="b"} 1'),
        ("values", 'U__rag_2e_hits{U__my_2e_tag="a",plain_one="b"} 1'),
    ],
)
def test_names_are_escaped_as_asked(escaping, line):
    for media in ("text/plain", "application/openmetrics-text"):
        form = choose_format(f"{media};version=1.0.0;escaping={escaping}")
        assert line in page([ODD], form).decode().splitlines()
    form = choose_format(
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
        f"encoding=delimited;escaping={escaping}"
    )
    (family,) = messages(page([ODD], form))
    name = line.split("{")[0] or "rag.hits"
    assert family.name == name
    assert family.metric[0].label[1].name == "plain_one"


SMALL = [
    Family(
        "ragmon_queries_total",
        "counter",
        'Queries of a "pipeline".',
        [(series("ragmon_queries_total", (("pipeline", 'a "b"\n\\é'),)), 7.0)],
    ),
    Family("ragmon_hit_ratio", "gauge", "Hits.", [(series("ragmon_hit_ratio", ()), 0.25)]),
    SPOKEN,
    ODD,
]


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        "text/plain;version=1.0.0;escaping=allow-utf-8",
        "application/openmetrics-text;escaping=underscores",
    ],
)
def test_text_is_as_it_was(accept):
    form = choose_format(accept)
    said = form.content_type.encode() + b"\n\n" + page(SMALL, form)
    same(f"format-{form.kind}-{form.parameters[0][1]}.txt", said.decode())


def test_protobuf_is_as_it_was():
    shown = [text_format.MessageToString(message) for message in messages(page(SMALL, PROTOBUF))]
    same("format-protobuf.txt", "\n".join(shown))


def test_the_oldest_format_has_underscores():
    assert 'rag_hits{my_tag="a",plain_one="b"} 1' in page([ODD], TEXT).decode()
