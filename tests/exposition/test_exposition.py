"""The whole /metrics page of a fixed day, in both formats."""

import re
import subprocess

import pytest

from ragmon.clock import ManualClock
from ragmon.exposition.choice import WITH_INTERVAL
from tests.support.daemons import running
from tests.support.golden import same
from tests.support.metrics import samples
from tests.support.tools import program
from tests.support.wait import eventually

NOW = 4_000_000_000.0  # far away, so that no scheduled work comes in between
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def record(at: int) -> dict:
    """The at-th query of the day; everything follows from its number."""
    empty, failed = at % 9 == 4, at % 13 == 6
    chunks = [{"id": f"d{(at + rank) % 7}", "score": round(0.95 - 0.13 * rank - at % 5 / 10, 3),
               "text": f"Article {at + rank}: the fee of {at + rank} euros is due on Monday."}
              for rank in range(0 if empty else 4)]  # fmt: skip
    made = {
        "query_id": f"q{at}",
        "timestamp": NOW - 3 * at,
        "pipeline": "docs" if at % 3 else 'shop "north"',
        "version": ("v1", "v2", "")[at % 4 % 3],
        "tags": {"tenant": f"t{at % 2}", "unlisted": str(at)},
        "chunks": chunks,
        "latency_ms": {
            "total": 40.0 + 61 * at,
            "retrieval": 8.0 + at,
            "generation": 30.0 + 60 * at,
        },
        "trace_id": f"{at:032x}",
    }
    if failed:
        made["error"] = "upstream timed out"
    elif not empty:
        fee = f"The fee of {at} euros is due on Monday"
        made["answer"] = f"{fee} [1]." if at % 4 else "Green penguins dance over the old bridge."
        made["citations"] = [chunks[at % 3]["id"]] if at % 4 else []
    if at % 5 == 0:
        made["relevant_ids"] = [f"d{at % 4}"]
    if at % 6 == 1:
        made["feedback"] = ("positive", "negative", 0.0)[at % 7 % 3]
    return made


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The text and the OpenMetrics page after the day."""
    settings = {
        "slices": "tenant",
        "windows": "1h",
        "retrieval__ks": "1,3",
        "retrieval__low_score": 0.6,
        "retrieval__relevant_score": 0.7,
        "latency__slow_ms": 3_000,
        "judge__grounding__enabled": True,
    }
    data_dir = tmp_path_factory.mktemp("day") / "data"
    with running(data_dir, ManualClock(NOW), **settings) as site:
        assert site.post("/v1/queries", [record(at) for at in range(80)]).json["accepted"] == 80
        eventually(lambda: not site.total("ragmon_judge_queue_length"), "every answer was read")
        assert site.post("/v1/queries", [record(3)]).json["duplicates"] == 1
        assert site.post("/v1/queries", b"oops").status == 422
        told = [
            {"query_id": f"q{at}", "rating": "negative", "timestamp": NOW} for at in (2, 9, 200)
        ]
        assert site.post("/v1/feedback", told).json["accepted"] == 3
        site.post("/v1/labels", {"query_id": "q3", "relevant_ids": ["d5"], "timestamp": NOW})
        people = [
            {"query_id": f"q{at}", "faithful": said, "timestamp": NOW}
            for at, said in ((1, 1.0), (8, 0.0), (9, 1.0))
        ]
        assert site.post("/v1/labels", people).json["accepted"] == 3
        yield site.page(), site.page(accept=OPENMETRICS)


@pytest.fixture(scope="module")
def text(pages):
    return pages[0]


def masked(page: str) -> str:
    """Without what differs between releases and machines; the judge's own tests know its values.

    Digits beyond the twelfth depend on the order of a sum, which is the windows' own business.
    """
    page = re.sub(r'(ragmon_build_info\{.*version=)"[^"]*"', r'\1"masked"', page)
    page = re.sub(
        r"(?m)^(ragmon_(?:store_bytes|memory_\w+|http_connections\w*)) .*$", r"\1 0", page
    )
    page = re.sub(r"(?m)^(ragmon_limit_bytes.*disk.*) .*$", r"\1 0", page)
    page = re.sub(r"(?m)^(ragmon_loop_last_turn.*\}) .*$", r"\1 0", page)
    page = re.sub(r"(?m)^(ragmon_.*(?:grounding|faithful).*\}) \S+$", r"\1 0", page)
    return re.sub(r"(?m)(?<= )\d+\.\d{10,}$", lambda found: f"{float(found[0]):.12g}", page)


def test_the_page_is_as_it_was(pages):
    same("metrics.txt", masked(pages[0]))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("ragmon_queries_total", "pipeline version"),
        ("ragmon_query_errors_total", "pipeline version"),
        ("ragmon_zero_result_queries_total", "pipeline version"),
        ("ragmon_query_duration_seconds_bucket", "pipeline stage le"),
        ("ragmon_query_duration_seconds_sum", "pipeline stage"),
        ("ragmon_query_duration_seconds_count", "pipeline stage"),
        ("ragmon_retrieval_top_score_bucket", "pipeline le"),
        ("ragmon_chunks_retrieved_total", "pipeline version"),
        ("ragmon_chunks_cited_total", "pipeline version"),
        ("ragmon_feedback_total", "pipeline version rating"),
        ("ragmon_failure_mode_total", "pipeline version mode"),
        ("ragmon_query_hits_total", "pipeline version evidence k"),
        ("ragmon_query_misses_total", "pipeline version evidence k"),
        ("ragmon_judged_answers_total", "pipeline version judge"),
        ("ragmon_judged_score_total", "pipeline version judge"),
        ("ragmon_slice_queries_total", "pipeline dimension value"),
        ("ragmon_slice_query_errors_total", "pipeline dimension value"),
        ("ragmon_slice_zero_result_queries_total", "pipeline dimension value"),
        ("ragmon_slice_query_hits_total", "pipeline dimension value evidence k"),
        ("ragmon_slice_query_misses_total", "pipeline dimension value evidence k"),
        ("ragmon_slice_chunks_retrieved_total", "pipeline dimension value"),
        ("ragmon_slice_chunks_cited_total", "pipeline dimension value"),
        ("ragmon_slice_feedback_total", "pipeline dimension value rating"),
        ("ragmon_slice_judged_answers_total", "pipeline dimension value judge"),
        ("ragmon_slice_judged_score_total", "pipeline dimension value judge"),
        ("ragmon_window_queries", "pipeline window"),
        ("ragmon_hit_ratio", "pipeline window k evidence"),
        ("ragmon_reciprocal_rank", "pipeline window evidence"),
        ("ragmon_zero_result_ratio", "pipeline window"),
        ("ragmon_attribution_ratio", "pipeline window"),
        ("ragmon_uncited_ratio", "pipeline window"),
        ("ragmon_error_ratio", "pipeline window"),
        ("ragmon_low_score_ratio", "pipeline window"),
        ("ragmon_slow_ratio", "pipeline window"),
        ("ragmon_positive_feedback_ratio", "pipeline window"),
        ("ragmon_latency_seconds", "pipeline window stage quantile"),
        ("ragmon_grounding_ratio", "pipeline window"),
        ("ragmon_grounding_coverage_ratio", "pipeline window"),
        ("ragmon_faithfulness_ratio", "pipeline window judge"),
        ("ragmon_judged_total", "judge outcome"),
        ("ragmon_judge_queue_length", "judge"),
        ("ragmon_slice_window_queries", "pipeline dimension value window"),
        ("ragmon_slice_zero_result_ratio", "pipeline dimension value window"),
        ("ragmon_slice_hit_ratio", "pipeline dimension value window k evidence"),
        ("ragmon_slice_latency_seconds", "pipeline dimension value window stage quantile"),
        ("ragmon_build_info", "version"),
        ("ragmon_ingest_records_total", "source"),
        ("ragmon_rejected_total", "source reason"),
        ("ragmon_duplicates_total", "source"),
        ("ragmon_ingest_queue_bytes", ""),
        ("ragmon_commit_duration_seconds_bucket", "le"),
        ("ragmon_store_bytes", ""),
        ("ragmon_evaluation_timestamp_seconds", ""),
        ("ragmon_evaluation_duration_seconds", ""),
        ("ragmon_watermark_timestamp_seconds", ""),
        ("ragmon_window_restatements_total", ""),
        ("ragmon_series_dropped_total", ""),
    ],
)
def test_what_the_design_names_is_there(text, name, labels):
    found = [set(sample.labels) for sample in samples(text) if sample.name == name]
    assert set(labels.split()) in found
    assert not any(each - set(labels.split()) for each in found)


RATIOS = re.compile(r"ragmon_(slice_)?\w+(_ratio|_rank)")


def test_every_ratio_has_its_samples_and_what_is_charted_its_interval(text):
    by_name: dict[str, dict[frozenset, float]] = {}
    for sample in samples(text):
        by_name.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    ratios = [name for name in by_name if RATIOS.fullmatch(name)]
    assert {"ragmon_zero_result_ratio", "ragmon_slice_hit_ratio"} <= set(ratios)
    assert len(ratios) >= 20
    bounded = [name for name in ratios if name.removeprefix("ragmon_") in WITH_INTERVAL]
    assert len(bounded) > 10
    for name in ratios:
        counts = by_name[name + "_samples"]
        assert by_name[name].keys() == counts.keys()
        assert all(count >= 1 for count in counts.values())
        assert (name in bounded) == (name + "_lower" in by_name) == (name + "_upper" in by_name)
    for name in bounded:
        lower, upper = (by_name[name + end] for end in ("_lower", "_upper"))
        assert by_name[name].keys() == lower.keys() == upper.keys()
        for labels, value in by_name[name].items():
            assert 0 <= lower[labels] <= value <= upper[labels] <= 1


def test_numbers_agree_with_the_records(text):
    def value(name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in samples(text)
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    day = [record(at) for at in range(80)]
    docs = [each for each in day if each["pipeline"] == "docs"]
    empty = sum(not each["chunks"] for each in docs)
    assert 50 < len(docs) < 80
    assert value("ragmon_queries_total") == 80
    assert value("ragmon_queries_total", pipeline="docs") == len(docs)
    assert value("ragmon_window_queries", pipeline="docs", window="1h") == len(docs)
    assert value("ragmon_query_errors_total") == sum("error" in each for each in day)
    assert value("ragmon_zero_result_queries_total", pipeline="docs") == empty
    assert value("ragmon_zero_result_ratio", pipeline="docs", window="1h") == pytest.approx(
        empty / len(docs)
    )
    assert value("ragmon_chunks_retrieved_total") == sum(len(each["chunks"]) for each in day)
    assert value("ragmon_query_duration_seconds_sum", stage="total") == pytest.approx(
        sum(each["latency_ms"]["total"] for each in day) / 1_000
    )
    assert value("ragmon_duplicates_total", source="http") == 1
    assert value("ragmon_rejected_total", source="http", reason="malformed") == 1
    assert value("ragmon_ingest_records_total", source="http") == 80
    assert value("ragmon_ingest_records_total", source="feedback") == 3
    judged = value("ragmon_judged_total", judge="grounding")
    assert judged == sum("answer" in each for each in day)
    assert value("ragmon_window_restatements_total") == judged + 6
    assert value("ragmon_watermark_timestamp_seconds") == NOW


def test_both_formats_say_the_same(pages):
    def flat(page: str) -> dict:
        found = {}
        for sample in samples(page):
            labels = sample.labels | (
                {"le": str(float(sample.labels["le"]))} if "le" in sample.labels else {}
            )
            found[sample.name, frozenset(labels.items())] = sample.value
        return found

    text, openmetrics = map(flat, map(masked, pages))  # the disk goes on being written to
    assert len(text) > 300
    assert text == openmetrics


def test_slow_buckets_lead_to_a_query(pages):
    traced = [sample for sample in samples(pages[1]) if sample.exemplar]
    assert {sample.labels["stage"] for sample in traced} == {"total", "retrieval", "generation"}
    for sample in traced:
        at = int(sample.exemplar.labels["trace_id"], 16)
        assert record(at)["pipeline"] == sample.labels["pipeline"]
        stage = record(at)["latency_ms"][sample.labels["stage"]]
        assert sample.exemplar.value == pytest.approx(stage / 1_000)
        assert sample.exemplar.value <= float(sample.labels["le"])
        assert float(sample.exemplar.timestamp) == NOW - 3 * at


def test_what_nobody_knows_is_absent(tmp_path):
    with running(tmp_path / "data") as site:
        fresh = {sample.name for sample in samples(site.page())}
        assert "ragmon_build_info" in fresh
        assert not any(RATIOS.fullmatch(name) for name in fresh)
        site.post("/v1/queries", {"query": "no chunks, no latency, no feedback"})
        known = {sample.name for sample in samples(site.page())}
    assert "ragmon_error_ratio" in known
    for unknown in (
        "zero_result_ratio",
        "attribution_ratio",
        "positive_feedback_ratio",
        "hit_ratio",
    ):
        assert f"ragmon_{unknown}" not in known
    assert "ragmon_latency_seconds" not in known
    assert "ragmon_query_duration_seconds_bucket" not in known


def test_negative_scores_make_a_valid_page(tmp_path):
    with running(tmp_path / "data") as site:
        site.post("/v1/queries", {"chunks": [{"id": "a", "score": -4.5}]})
        page = site.page(accept=OPENMETRICS)
    assert [s.value for s in samples(page) if s.name == "ragmon_retrieval_top_score_bucket"][
        -1
    ] == 1


def test_promtool_finds_no_fault(text):
    check = [program("promtool"), "check", "metrics"]
    good = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout, good.stderr) == (0, "", "")
    bad = text + "# TYPE ragmon_bad counter\nragmon_bad 1\n"
    assert subprocess.run(check, input=bad, capture_output=True, text=True, check=False).returncode
