"""Counters out of the totals: hits, verdicts and slices, and that none ever falls."""

from collections import defaultdict

import pytest
from msgspec.structs import replace

from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.counters import Counters
from ragmon.exposition.negotiation import TEXT
from ragmon.exposition.text import render
from ragmon.pipeline import amend
from ragmon.records import Amendments, Chunk, Draw, Feedback, Label, Verdict
from ragmon.windows import Windows
from ragmon.windows.series import SeriesKey
from ragmon.windows.snapshot import dump_totals, load_totals
from tests.support.examples import NOON, chunks, pipeline, record, windows
from tests.support.metrics import samples

PIPELINE = pipeline(slices=("tenant",), ks=(1, 3, 10))
CHUNKS = [Chunk("a", text="Paris is the capital."), Chunk("b", text="Lyon is a city.")]
ACME = SeriesKey("default", "tenant", "acme")


class Log:
    """Queries, what becomes known of them later, and the counters."""

    def __init__(self) -> None:
        self.windows = windows(PIPELINE)
        self.counters = Counters(self.windows.columns, MetricChoice().shows)
        self._known: dict[str, tuple] = {}
        self._clock = NOON

    def queries(self, *records) -> None:
        self._known |= {each.query_id: (each, Amendments()) for each in records}
        self.windows.fold(PIPELINE.observe(list(records)))

    def later(self, *changes) -> None:
        for change in changes:
            self._clock += 1.0
            query, before = self._known[change.query_id]
            is_draw = isinstance(change, Draw)
            after, _ = amend(before, change if is_draw else replace(change, timestamp=self._clock))
            old, new = (PIPELINE.observe([query], [known]) for known in (before, after))
            self.windows.restate(old, new)
            self._known[change.query_id] = (query, after)

    def value(self, name: str, **labels: str) -> float | None:
        return value(self.windows, self.counters, name, **labels)


def counted(held: Windows, counters: Counters):
    keys = [each for each in held.series.keys.items() if held.totals.queries[each[1]]]
    pipelines = [number for key, number in keys if not key.dimension]
    return counters.count(held.totals.copy(len(held.series), pipelines), keys, {})


def shown(held: Windows, counters: Counters, slices=None) -> dict[str, list]:
    every = held.series.keys if slices is None else slices
    by_name = defaultdict(list)
    text = render(counters.families(counted(held, counters), every), TEXT).decode()
    for sample in samples(text):
        by_name[sample.name].append(sample)
    return by_name


def value(held: Windows, counters: Counters, name: str, **labels: str) -> float | None:
    found = [
        sample.value
        for sample in shown(held, counters)[f"ragmon_{name}_total"]
        if labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None


@pytest.fixture
def log():
    return Log()


def judged(query_id="q1", score=0.5, judge="llm", **fields):
    return Verdict(query_id=query_id, judge=judge, score=score, **fields)


def test_hits_and_misses_by_evidence(log):
    log.queries(
        record("q1", chunks=chunks("a", "b"), citations=["b"], relevant_ids=["b"]),
        record("q2", chunks=chunks("a", "b"), citations=["z"]),
        record("q3"),
    )
    hits, misses = "query_hits", "query_misses"
    assert log.value(hits, evidence="label", k="1") == 0
    assert log.value(misses, evidence="label", k="1") == 1
    assert log.value(hits, evidence="citation", k="3") == 1
    assert log.value(misses, evidence="citation", k="3") == 1
    assert log.value(hits, evidence="score") is None
    assert log.value(misses, evidence="judge") is None


def test_a_corrected_label_counts_under_both(log):
    log.queries(record("q1", chunks=chunks("a", "b")))
    seen = []
    for relevant in ("z", "a", "z"):
        log.later(Label(query_id="q1", relevant_ids=[relevant]))
        seen.append(
            [log.value(f"query_{what}", evidence="label", k="1") for what in ("hits", "misses")]
        )
    assert seen == [[0, 1], [1, 1], [1, 2]]


@pytest.mark.parametrize(
    ("ratings", "positive", "negative", "neutral"),
    [
        pytest.param([1], 1, 0, 0, id="liked"),
        pytest.param([0], 0, 0, 1, id="neither"),
        pytest.param([1, -1], 1, 1, 0, id="liked, then not"),
        pytest.param([0, 1], 1, 0, 1, id="neither, then liked"),
        pytest.param([-1, 0, -1], 0, 2, 1, id="there and back"),
        pytest.param([0, -1, 1, 0], 1, 1, 2, id="through all of them"),
    ],
)
def test_no_rating_is_ever_taken_back(log, ratings, positive, negative, neutral):
    log.queries(record("q1"))
    expected = {"positive": positive, "negative": negative, "neutral": neutral}
    before = dict.fromkeys(expected, 0.0)
    for rating in ratings:
        log.later(Feedback(query_id="q1", rating=float(rating)))
        now = {each: log.value("feedback", rating=each) or 0.0 for each in expected}
        assert all(now[each] >= before[each] for each in expected)
        before = now
    assert before == expected


def test_judged_answers_and_their_scores(log):
    log.queries(*(record(each, answer="Paris.", chunks=CHUNKS) for each in ("q1", "q2")))
    assert log.value("judged_answers") == 0
    log.later(judged("q1", 0.75, "grounding"), judged("q2", 0.25, "grounding"))
    log.later(Label(query_id="q2", faithful=1.0))
    assert log.value("judged_answers", judge="grounding") == 2
    assert log.value("judged_score", judge="grounding") == 1
    assert log.value("judged_answers", judge="human") == 1
    assert log.value("judged_score", judge="human") == 1
    assert log.value("judged_answers", judge="llm") is None
    log.later(judged("q1", 0.25, "grounding"))  # judged anew: counts like another answer
    assert log.value("judged_answers", judge="grounding") == 3
    assert log.value("judged_score", judge="grounding") == 1.25


def test_an_answer_read_by_chance_counts_for_those_that_were_not(log):
    log.queries(record("q1", answer="Paris.", chunks=CHUNKS))
    log.later(judged("q1", 0.5, "grounding", probability=0.25))
    assert log.value("judged_answers", judge="grounding") == 4
    assert log.value("judged_score", judge="grounding") == 2
    log.later(Label(query_id="q1", relevant_ids=["a"]))  # says nothing of the verdict
    assert log.value("judged_answers", judge="grounding") == 4


def test_a_sampled_verdict_counts_for_the_answers_that_were_not_drawn(log):
    log.queries(record("q1", answer="Paris.", chunks=CHUNKS))
    log.later(Draw(query_id="q1", probability=0.2, proxy=0.6, drawn=True))
    log.later(judged(score=0.5, useful=("b",)))
    at = {"evidence": "judge", "k": "1"}
    assert log.value("judged_answers", judge="llm") == 5
    assert log.value("judged_score", judge="llm") == 2.5
    assert (log.value("query_hits", **at), log.value("query_misses", **at)) == (0, 5)
    assert log.value("query_hits", evidence="judge", k="3") == 5
    log.later(Label(query_id="q1", faithful=1.0))  # changes nothing of the verdict
    assert log.value("judged_answers", judge="llm") == 5
    log.later(judged(score=1.0, useful=("a",)))
    assert log.value("judged_answers", judge="llm") == 10
    assert log.value("judged_score", judge="llm") == 7.5
    assert (log.value("query_hits", **at), log.value("query_misses", **at)) == (5, 5)


def test_counters_of_samples_survive_a_restart(log):
    log.queries(record("q1", answer="Paris.", chunks=CHUNKS, tags={"tenant": "acme"}))
    log.later(Draw(query_id="q1", probability=0.3, proxy=0.6, drawn=True))
    log.later(judged(score=0.9))
    again = windows(PIPELINE)
    load_totals(again, dump_totals(log.windows))
    before, after = (
        shown(log.windows, log.counters),
        shown(again, Counters(again.columns, MetricChoice().shows)),
    )
    assert before == after
    assert before["ragmon_slice_judged_score_total"][0].value == pytest.approx(3.0, abs=1e-5)


def test_slices_show_the_headline_counters_and_no_version(log):
    log.queries(
        record("q1", version="v1", tags={"tenant": "acme"}, relevant_ids=["a"], chunks=CHUNKS),
        record("q2", version="v1", tags={"tenant": "zoo"}, feedback=1.0),
    )
    by_name = shown(log.windows, log.counters)
    of = {
        name: {sample.labels["value"] for sample in found}
        for name, found in by_name.items()
        if name.startswith("ragmon_slice_")
    }
    assert of.pop("ragmon_slice_queries_total") == {"acme", "zoo"}
    assert of.pop("ragmon_slice_query_errors_total") == {"acme", "zoo"}
    assert of.pop("ragmon_slice_feedback_total") == {"zoo"}  # unknown is absent
    assert set(of) == {
        f"ragmon_slice_{name}_total"
        for name in ("zero_result_queries", "chunks_retrieved", "query_hits", "query_misses")
    }
    assert set().union(*of.values()) == {"acme"}
    hits = by_name["ragmon_slice_query_hits_total"]
    assert [sample.labels["k"] for sample in hits] == ["3"]  # nearest to that of the alerts


def test_only_the_slices_asked_for_are_shown_and_their_size_is_known(log):
    log.queries(*(record(f"q{at}", tags={"tenant": t}) for at, t in enumerate(("acme", "zoo"))))
    held = log.windows
    tags = [key for key in held.series.keys if key.dimension == "tenant" and key.value != "other"]
    one = shown(held, log.counters, {ACME})
    assert {s.labels["value"] for s in one["ragmon_slice_queries_total"]} == {"acme"}
    assert not one["ragmon_queries_total"]
    costs = log.counters.costs(counted(held, log.counters))
    assert costs[ACME] == 2
    assert set(tags) <= costs.keys()
    for key, cost in costs.items():
        of_key = shown(held, log.counters, {key})
        assert sum(map(len, of_key.values())) == cost


def test_what_the_choice_leaves_out_costs_nothing(log):
    log.queries(record("q1", tags={"tenant": "acme"}))
    choice = MetricChoice(include=("ragmon_queries_total",))
    chosen = Counters(log.windows.columns, choice.shows)
    assert sum(chosen.costs(counted(log.windows, chosen)).values()) == 1
    assert set(shown(log.windows, chosen)) == {"ragmon_queries_total"}


def test_series_that_are_gone_are_not_kept(log):
    log.queries(record("q1", tags={"tenant": "acme"}))
    assert shown(log.windows, log.counters)["ragmon_slice_queries_total"]
    assert not shown(log.windows, log.counters, ())["ragmon_slice_queries_total"]
