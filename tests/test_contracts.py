"""What every signal, store and sink must keep to, found in their folders."""

import pkgutil
import sys
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from ragmon import signals
from ragmon.alerts.message import Links
from ragmon.clock import ManualClock
from ragmon.errors import SinkError, StoreBusyError
from ragmon.pipeline import Pipeline, effective
from ragmon.plugins import find, kinds
from ragmon.records import Amendments, Draw, Feedback, Label, QueryRecord, Verdict
from ragmon.signals import CustomJudge, Kind, SignalOptions
from ragmon.signals.catalogue import build, by_batch, by_record, modules
from ragmon.signals.facts import extract
from ragmon.sinks import Repeating, SinkContext
from ragmon.stores import Reader
from ragmon.stores.ports import Lease, Shard, StateStore, Store
from ragmon.windows.batch_rows import added
from tests.support.alerts import notice
from tests.support.examples import NOON, query_records, record, windows
from tests.support.modules import module as optional_module
from tests.support.stores import KINDS, opened

CUSTOM = (CustomJudge("tone", is_sampled=True), CustomJudge("length", is_sampled=False))
OPTIONS = SignalOptions(ks=(1, 3), relevant_score=0.5, low_score=0.2, custom=CUSTOM)
CATALOGUE = build(OPTIONS)
PIPELINE = Pipeline(CATALOGUE)
NO_SIGNALS = {"catalogue", "evidence", "facts", "refusal_phrases", "steps", "verdict_sums"}

scores = st.sampled_from([0.0, 0.3, 1.0])
amendments = st.builds(
    Amendments,
    feedback=st.none() | st.builds(Feedback, query_id=st.just("q"), rating=st.just(-1.0)),
    labels=st.lists(
        st.builds(
            Label,
            query_id=st.just("q"),
            relevant_ids=st.none() | st.just(["a"]),
            grades=st.just({}),
            faithful=st.none() | scores,
            timestamp=st.sampled_from([1.0, 2.0]),
        ),
        max_size=3,
    ).map(tuple),
    verdicts=st.lists(
        st.builds(
            Verdict,
            query_id=st.just("q"),
            judge=st.sampled_from(["grounding", "llm"]),
            score=st.none() | scores,
            probability=st.sampled_from([1.0, 0.01]),
            raw=st.none() | scores,
            doubted_below=st.none() | st.just(0.2),
        ),
        max_size=2,
        unique_by=lambda verdict: verdict.judge,
    ).map(tuple),
    draw=st.none()
    | st.builds(
        Draw,
        query_id=st.just("q"),
        probability=st.sampled_from([0.1, 0.25]),
        proxy=scores,
        share=st.sampled_from([1.0, 0.5]),
    ),
)


def answered(query: QueryRecord, answer: str | None, text: str | None) -> QueryRecord:
    """The query with an answer, and with this text in its first chunk."""
    chunks = [
        replace(chunk, text=None if at else text) for at, chunk in enumerate(query.chunks or ())
    ]
    return replace(query, answer=answer, chunks=None if query.chunks is None else chunks)


answered_queries = st.builds(
    answered, query_records(), st.sampled_from([None, "", "Yes."]), st.sampled_from([None, "", "a"])
)
known_queries = st.lists(st.tuples(answered_queries, amendments), max_size=12)


def observed(queries: list[Any]) -> np.ndarray:
    return PIPELINE.observe([query for query, _ in queries], [known for _, known in queries]).values


# ---- signals --------------------------------------------------------------------------------


def test_every_file_of_the_folder_is_a_signal_or_known_not_to_be():
    names = {info.name for info in pkgutil.iter_modules(signals.__path__)}
    found = {module.__name__.rpartition(".")[2] for module in modules()}
    assert {"zero_result", "hit", "attribution"} <= found
    assert names - found == NO_SIGNALS, "export NAME, or list the helper in NO_SIGNALS"


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_a_signal_exports_what_it_must(module):
    assert module.KIND in get_args(Kind)
    assert module.NAME.isidentifier()
    assert module.HELP.endswith("."), "HELP ends with a period"
    assert module.HELP[0].isupper(), "HELP begins with a capital"
    assert module.__doc__
    assert callable(module.observe)
    mine = [column for column in CATALOGUE.columns if column.name == module.NAME]
    assert len({column.labels for column in mine}) == len(mine) > 0
    assert all(column.help == module.HELP and column.kind == module.KIND for column in mine)


def test_names_are_not_taken_twice():
    found = modules()
    assert len({module.NAME for module in found}) == len(found)
    assert len({column.key for column in CATALOGUE.columns}) == len(CATALOGUE.columns)
    metrics = {column.name: column.metric for column in CATALOGUE.columns if column.metric}
    assert len(set(metrics.values())) == len(metrics)


@settings(deadline=None)
@given(known_queries)
def test_observations_stay_within_their_kind(queries):
    values = observed(queries)
    assert values.shape == (len(queries), len(CATALOGUE.columns))
    assert values.dtype == np.float64
    for at, column in enumerate(CATALOGUE.columns):
        found = values[~np.isnan(values[:, at]), at]
        if column.kind == "proportion":
            assert np.isin(found, (0.0, 1.0)).all(), column.key
        elif column.kind == "fraction":
            assert ((found >= 0.0) & (found <= 1.0)).all(), column.key
        else:
            assert np.isfinite(found).all(), column.key


@settings(deadline=None)
@given(known_queries)
def test_every_query_is_observed_by_itself(queries):
    together = observed(queries)
    np.testing.assert_array_equal(observed(queries), together)
    np.testing.assert_array_equal(observed(queries[::-1]), together[::-1])
    for at, query in enumerate(queries):
        np.testing.assert_array_equal(observed([query])[0], together[at])


BATCHED = [module for module in modules() if hasattr(module, "observe_batch")]
LIMITS = st.none() | st.sampled_from([0.2, 0.5])


@pytest.mark.parametrize("module", BATCHED, ids=lambda module: module.NAME)
@settings(deadline=None)
@given(known_queries, LIMITS, LIMITS)
def test_the_batch_form_of_a_signal_agrees_with_its_record_form(
    module, queries, relevant_score, low_score
):
    options = SignalOptions(
        ks=(1, 3), slow_ms=1_000.0, relevant_score=relevant_score, low_score=low_score
    )
    known = [later for _, later in queries]
    records = [effective(query, later) for query, later in queries]
    facts = extract(records, options.relevant_score, known)
    expected = by_record(module, options)(records, known, facts)
    batch = by_batch(module, options)(records, known, facts).reshape(expected.shape)
    np.testing.assert_allclose(batch, expected, rtol=1e-12)


@settings(deadline=None)
@given(known_queries, st.integers(0, 12))
def test_sums_of_parts_are_the_sum_of_the_whole(queries, cut):
    values, proportions = observed(queries), np.zeros(len(PIPELINE.columns), dtype=np.bool_)
    first, second, whole = (
        added(part, proportions) for part in (values[:cut], values[cut:], values)
    )
    sums = [part.widened(part.rows.sum(axis=0)[None]) for part in (first, second, whole)]
    np.testing.assert_allclose(sums[0] + sums[1], sums[2])


def test_a_plain_signal_is_found_by_its_file(tmp_path, monkeypatch):
    (tmp_path / "wordy.py").write_text(
        '"""The answer is long, or was called so."""\n'
        'NAME = "wordy"\n'
        'HELP = "Share of answers above ten characters."\n'
        'KIND = "proportion"\n'
        "def variants(options):\n"
        "    return ({'by': 'length'}, {'by': 'label'})\n"
        "def observe(record, known, options):\n"
        "    length = None if record.answer is None else len(record.answer) > 10\n"
        "    return length, float(known.labels[0].faithful < 0.5) if known.labels else None\n"
    )
    monkeypatch.setattr(signals, "__path__", [*signals.__path__, str(tmp_path)])
    catalogue = build(OPTIONS)
    monkeypatch.delitem(sys.modules, "ragmon.signals.wordy")
    at, labelled = catalogue.index("wordy", by="length"), catalogue.index("wordy", by="label")
    assert catalogue.columns[at].metric == "wordy_ratio"
    answers = (None, "short", "rather a long one")
    records = [record(answer=answer) for answer in answers]
    values = catalogue.observe(records)
    np.testing.assert_array_equal(values[:, at], [np.nan, 0.0, 1.0])
    assert np.isnan(values[:, labelled]).all()
    known = [Amendments(labels=(Label(query_id="q", faithful=0.0),)), Amendments(), Amendments()]
    values = catalogue.observe(records, known)
    np.testing.assert_array_equal(values[:, labelled], [1.0, np.nan, np.nan])
    assert catalogue.observe([]).shape == (0, len(catalogue.columns))
    held = windows(Pipeline(catalogue))
    held.fold(Pipeline(catalogue).observe([record(answer="rather a long one")]))
    assert held.merge(300.0, NOON).rows[:, at].max() == 1


# ---- stores ---------------------------------------------------------------------------------


def promised(protocol: type) -> set[str]:
    parts = [part for part in protocol.__mro__ if part.__module__.startswith("ragmon.")]
    names = {name for part in parts for name in vars(part)}
    return {name for name in names if not name.startswith("_") and name != "register"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_has_every_method_of_its_ports(kind, tmp_path):
    assert {"commit", "find", "expire"} <= promised(Shard)
    assert {"follow", "save_windows", "outbox"} <= promised(StateStore)
    store = opened(kind, tmp_path)
    ports = [(Store, store), (StateStore, store.state), (Lease, store.lease)]
    ports += [(Shard, shard) for shard in store.shards.values()]
    with store.reader() as reader:
        for protocol, port in [*ports, (Reader, reader)]:
            assert {name for name in promised(protocol) if not hasattr(port, name)} == set()
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_belongs_to_one_process_at_a_time(kind, tmp_path):
    store = opened(kind, tmp_path)
    with pytest.raises(StoreBusyError, match="in use by another ragmon"):
        opened(kind, tmp_path)
    store.close()
    opened(kind, tmp_path).close()


# ---- sinks ----------------------------------------------------------------------------------

SINKS = kinds("ragmon.sinks")
NOBODY = "http://127.0.0.1:9/x"
LEAST = {"url": NOBODY, "webhook_url": NOBODY, "routing_key": "x" * 32, "api_key": "x" * 32}
LEAST |= {"host": "127.0.0.1", "sender": "ragmon@example.org", "to": ("ann@example.org",)}
LEAST |= {"service": "json://127.0.0.1:9/x"}
OPTIONAL = {"apprise": "apprise"}  # module of an extra, by kind
CONTEXT = SinkContext(ManualClock(NOON), Links("http://ragmon", "http://docs"))


def least(module: Any) -> dict[str, Any]:
    """The options without which a sink cannot be."""
    return {name: LEAST[name] for name in module.Options.model_fields.keys() & LEAST.keys()}


@pytest.mark.parametrize("kind", SINKS)
def test_a_sink_exports_what_it_must(kind):
    """Every file of the folder; what it needs is given by the names of its options."""
    assert {"alertmanager", "webhook", "slack", "pagerduty", "stdout"} <= set(SINKS)
    module = find("ragmon.sinks", kind, "sinks.0")
    fields = module.Options.model_fields
    assert fields.keys() >= ({"timeout_s"} if {"url", "webhook_url"} & fields.keys() else set())
    assert module.__doc__
    assert f"kind: {kind}" in (module.Options.__doc__ or "")
    secrets = {name for name, field in fields.items() if "SecretStr" in str(field.annotation)}
    assert all({f"{name}_file", f"{name}_env"} <= fields.keys() for name in secrets)
    assert all(field.description for field in fields.values())
    needed = least(module)
    if kind in OPTIONAL:
        optional_module(OPTIONAL[kind])
    sink = module.build(module.Options(**needed), CONTEXT)
    assert callable(sink.deliver)
    assert isinstance(sink, Repeating) == (kind == "alertmanager")
    with pytest.raises(ValidationError):
        module.Options(**needed, unheard_of=1)


@pytest.mark.parametrize("kind", sorted(set(SINKS) - {"stdout"}))
def test_a_sink_whose_receiver_is_not_there_can_be_tried_again(kind):
    module = find("ragmon.sinks", kind, "sinks.0")
    if kind in OPTIONAL:
        optional_module(OPTIONAL[kind])
    sink = module.build(module.Options(**least(module)), CONTEXT)
    with pytest.raises(SinkError) as refused:
        sink.deliver(notice())
    assert refused.value.retryable
