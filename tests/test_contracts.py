"""What every signal, store and sink must keep to, found in their folders."""

import pkgutil
import sys
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ragmon import signals
from ragmon.alerts.message import Links
from ragmon.clock import ManualClock
from ragmon.errors import SinkError
from ragmon.pipeline import Pipeline
from ragmon.plugins import find, kinds
from ragmon.records import Amendments, Feedback, Label, Verdict
from ragmon.signals import Kind, SignalOptions
from ragmon.signals.catalogue import build, modules
from ragmon.sinks import Repeating, SinkContext
from ragmon.stores import Reader, Store
from ragmon.windows.moments import expand
from tests.support.alerts import event
from tests.support.examples import NOON, query_records, record, windows
from tests.support.stores import KINDS, opened

OPTIONS = SignalOptions(ks=(1, 3), relevant_score=0.5, low_score=0.2)
CATALOGUE = build(OPTIONS)
PIPELINE = Pipeline(CATALOGUE)
NO_SIGNALS = {"catalogue", "facts", "verdict_sums"}

scores = st.sampled_from([0.0, 0.3, 1.0])
amendments = st.builds(
    Amendments,
    feedback=st.none() | st.builds(Feedback, query_id=st.just("q"), rating=st.just(-1.0)),
    labels=st.lists(st.builds(Label, query_id=st.just("q"), faithful=scores), max_size=1).map(
        tuple
    ),
    verdicts=st.lists(
        st.builds(
            Verdict,
            query_id=st.just("q"),
            judge=st.sampled_from(["grounding", "llm"]),
            score=st.none() | scores,
            probability=st.sampled_from([1.0, 0.01]),
        ),
        max_size=2,
    ).map(tuple),
)
known_queries = st.lists(st.tuples(query_records(), amendments), max_size=12)


def observed(queries: list[Any]) -> np.ndarray:
    return PIPELINE.observe([query for query, _ in queries], [known for _, known in queries]).values


# ---- signals --------------------------------------------------------------------------------


def test_every_file_of_the_folder_is_a_signal_or_known_not_to_be():
    names = {info.name for info in pkgutil.iter_modules(signals.__path__)}
    found = {module.__name__.rpartition(".")[2] for module in modules()}
    assert {"zero_result", "hit", "attribution"} <= found
    assert names - found == NO_SIGNALS


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_a_signal_exports_what_it_must(module):
    assert module.KIND in get_args(Kind)
    assert module.NAME.isidentifier()
    assert module.HELP.endswith(".")
    assert module.HELP[0].isupper()
    assert module.__doc__
    assert hasattr(module, "observe") != hasattr(module, "observe_batch")
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


@settings(deadline=None)
@given(known_queries, st.integers(0, 12))
def test_sums_of_parts_are_the_sum_of_the_whole(queries, cut):
    values = observed(queries)
    first, second = expand(values[:cut]).sum(axis=0), expand(values[cut:]).sum(axis=0)
    np.testing.assert_allclose(first + second, expand(values).sum(axis=0))
    np.testing.assert_allclose(second + first, expand(values).sum(axis=0))


def test_a_plain_signal_is_found_by_its_file(tmp_path, monkeypatch):
    (tmp_path / "wordy.py").write_text(
        '"""The answer is long."""\n'
        'NAME = "wordy"\n'
        'HELP = "Share of answers above ten characters."\n'
        'KIND = "proportion"\n'
        "def observe(record, options):\n"
        "    return None if record.answer is None else float(len(record.answer) > 10)\n"
    )
    monkeypatch.setattr(signals, "__path__", [*signals.__path__, str(tmp_path)])
    catalogue = build(OPTIONS)
    monkeypatch.delitem(sys.modules, "ragmon.signals.wordy")
    at = catalogue.index("wordy")
    assert catalogue.columns[at].metric == "wordy_ratio"
    answers = (None, "short", "rather a long one")
    values = catalogue.observe([record(answer=answer) for answer in answers])
    np.testing.assert_array_equal(values[:, at], [np.nan, 0.0, 1.0])
    assert catalogue.observe([]).shape == (0, len(catalogue.columns))
    held = windows(Pipeline(catalogue))
    held.fold(Pipeline(catalogue).observe([record(answer="rather a long one")]))
    assert held.merge(300.0, NOON).rows[:, at].max() == 1


# ---- stores ---------------------------------------------------------------------------------


def promised(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_") and name != "register"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_has_every_method_of_its_protocol(kind, tmp_path):
    assert {"commit", "find", "replay", "expire"} <= promised(Store)
    store = opened(kind, tmp_path)
    assert {name for name in promised(Store) if not callable(getattr(store, name, None))} == set()
    with store.reader() as reader:
        missing = {name for name in promised(Reader) if not callable(getattr(reader, name, None))}
        assert missing == set()
    store.close()


# ---- sinks ----------------------------------------------------------------------------------

SINKS = kinds("ragmon.sinks")
NOBODY = "http://127.0.0.1:9/x"
LEAST = {"url": NOBODY, "webhook_url": NOBODY, "routing_key": "x" * 32}
CONTEXT = SinkContext(ManualClock(NOON), Links("http://ragmon", "http://docs"))


def least(module: Any) -> dict[str, str]:
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
    sink = module.build(module.Options(**needed), CONTEXT)
    assert callable(sink.deliver)
    assert isinstance(sink, Repeating) == (kind == "alertmanager")
    with pytest.raises(ValidationError):
        module.Options(**needed, unheard_of=1)


@pytest.mark.parametrize("kind", sorted(set(SINKS) - {"stdout"}))
def test_a_sink_whose_receiver_is_not_there_can_be_tried_again(kind):
    module = find("ragmon.sinks", kind, "sinks.0")
    sink = module.build(module.Options(**least(module)), CONTEXT)
    with pytest.raises(SinkError) as refused:
        sink.deliver(event())
    assert refused.value.retryable
