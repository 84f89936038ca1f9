"""``/v1/series``: a metric over time, from memory and from disk."""

import asyncio

import msgspec
import numpy as np
import pytest

from ragmon.clock import ManualClock, SystemClock
from ragmon.daemon.metric_series import LiveSeries
from ragmon.detectors.expected_band import ExpectedBand
from ragmon.errors import ReadTimeoutError
from ragmon.web.pages.figures import TimeSpan, metric_figure
from ragmon.web.pages.headlines import shown_metric
from ragmon.web.series import SeriesQuery
from tests.support.daemons import running
from tests.support.hourly import DAY, HOUR, NOW, forty_days
from tests.support.wait import eventually


def send(site, pipeline, count, **fields):
    now = SystemClock().now() - 30.0
    body = [
        {"query_id": f"{pipeline}-{at}", "pipeline": pipeline, "timestamp": now + at / 100} | fields
        for at in range(count)
    ]
    assert site.post("/v1/queries", body).json["accepted"] == count


def test_a_metric_of_the_last_hour(daemon):
    send(daemon, "over-time", 40, chunks=[], version="v1", latency_ms=120)
    answer = daemon.get("/v1/series?metric=zero_result&pipeline=over-time&from=1h&step=1m").json
    assert (answer["metric"], answer["pipeline"], answer["dimension"]) == (
        "zero_result", "over-time", "",
    )  # fmt: skip
    assert answer["step"] == 60.0
    assert len(answer["points"]) in (60, 61, 62)
    assert answer["points"][0]["at"] == answer["from"]
    known = [point for point in answer["points"] if point["samples"]]
    assert sum(point["samples"] for point in known) == 40
    assert all(point["value"] == 1.0 for point in known)
    assert all(0.5 < point["lower"] < point["upper"] <= 1.0 for point in known)
    empty = [point for point in answer["points"] if not point["samples"]]
    assert {point["value"] for point in empty} == {None}


@pytest.mark.parametrize(
    ("metric", "of_slice", "expected"),
    [
        ("queries", "", 30.0),
        ("queries", "version=v2", 30.0),
        ("latency_ms@p95/total", "", pytest.approx(250.0, rel=0.02)),
        ("latency_ms/total", "version=v2", pytest.approx(250.0, rel=0.01)),
        ("failure_mode/retrieval", "", 1.0),
    ],
)
def test_every_kind_of_metric(daemon, metric, of_slice, expected):
    if daemon.get("/v1/series?metric=queries&pipeline=kinds").status == 404:
        send(daemon, "kinds", 30, chunks=[], version="v2", latency_ms=250)
    path = f"/v1/series?metric={metric}&pipeline=kinds&slice={of_slice}&from=1d&step=1d"
    answer = daemon.get(path).json
    known = [point for point in answer["points"] if point["samples"]]
    values = [point["value"] for point in known]
    assert (sum(values) if metric == "queries" else values[0]) == expected


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("pipeline=p", 400, "metric: is missing"),
        ("metric=zero_result", 400, "pipeline: is missing"),
        ("metric=zero_results&pipeline=p", 400, "did you mean zero_result?"),
        ("metric=queries&pipeline=nobody", 404, "no query of pipeline 'nobody' is counted"),
        ("metric=queries&pipeline=p&slice=v1", 400, "write it as dimension=value"),
        ("metric=queries&pipeline=p&from=1m", 400, "at least 5 minutes"),
        ("metric=queries&pipeline=p&from=400d", 400, "at most 90 days"),
        ("metric=queries&pipeline=p&from=1h&to=2h", 400, "at least 5 minutes"),
        ("metric=queries&pipeline=p&step=0s", 400, "is no duration"),
        ("metric=queries&pipeline=p&step=x", 400, "is no duration"),
        ("metric=queries&pipeline=p&from=30d&step=1m", 400, "at least 1296s fits"),
        ("metric=queries&pipeline=p&from=later", 400, "neither unix seconds"),
    ],
)
def test_refusals_say_what_to_write(daemon, query, status, words):
    answer = daemon.get(f"/v1/series?{query}")
    assert answer.status == status
    assert words in answer.json["detail"]


def test_a_token_sees_the_series_of_its_pipelines_alone(tmp_path):
    tokens = [
        {"name": "mine", "token": "a" * 32, "scopes": ["read", "ingest"], "pipelines": ["mine"]}
    ]
    with running(tmp_path / "data", auth__tokens=tokens) as site:
        mine = site.with_token("a" * 32)
        assert mine.get("/v1/series?metric=queries&pipeline=other").status == 403
        assert mine.get("/v1/series?metric=queries&pipeline=mine").status == 404
        assert mine.get("/v1/series?metric=queries").status == 400


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """One query an hour, every tenth day without a chunk."""
    with forty_days(tmp_path_factory.mktemp("data"), lambda day, _: day % 10 == 0) as hourly:
        yield hourly


@pytest.fixture(scope="module")
def live(history):
    engine, _, clock = history
    return LiveSeries(engine, clock, 10.0)


def asked(series, metric, pipeline, days, step_s):
    query = SeriesQuery(metric, pipeline, "", "", NOW - days * DAY, NOW, step_s)
    return asyncio.run(series.series(query))


@pytest.mark.parametrize("days", [7, 8, 9, 20, 39])
@pytest.mark.parametrize("step_s", [HOUR, 6 * HOUR, DAY])
def test_no_hour_is_missing_or_counted_twice(live, days, step_s):
    answer = asked(live, "queries", "docs", days, step_s)
    assert [point.value for point in answer.points] == [step_s / HOUR] * round(days * DAY / step_s)


def test_a_pipeline_that_memory_has_forgotten_is_read_from_disk(live):
    answer = asked(live, "zero_result", "old", 40, DAY)
    assert [point.samples for point in answer.points] == [24] + [0] * 39
    assert answer.points[0].value == 1.0
    msgspec.json.encode(answer)


def test_a_day_without_the_signal_is_a_gap(live):
    answer = asked(live, "zero_result", "docs", 39, DAY)
    known = [at for at, point in enumerate(answer.points) if point.value is not None]
    assert known == [9, 19, 29]


def ordinary(key, tens):
    """Detection that knows one stream, but not what was ordinary at the first step."""
    if key != ("docs", "zero_result", "", ""):
        return None
    upper = np.full(len(tens), 0.3)
    upper[0] = np.nan
    return ExpectedBand(upper - 0.2, upper)


@pytest.mark.parametrize(
    ("metric", "days", "step_s", "expected"),
    [
        pytest.param("zero_result", 1, 3_600.0, (0.1, 0.3), id="a stream that is watched"),
        pytest.param("error", 1, 3_600.0, (None, None), id="one of which too little is known"),
        pytest.param("queries", 1, 3_600.0, (None, None), id="what is no stream"),
        pytest.param("zero_result", 39, DAY, (None, None), id="steps that no level is of"),
    ],
)
def test_a_point_says_what_was_ordinary(history, metric, days, step_s, expected):
    engine, _, clock = history
    points = asked(LiveSeries(engine, clock, 10.0, ordinary), metric, "docs", days, step_s).points
    assert (points[0].expected_lower, points[0].expected_upper) == (None, None)
    last = (points[-1].expected_lower, points[-1].expected_upper)
    assert last == pytest.approx(expected)


def test_charts_get_what_was_ordinary_and_a_good_share_is_turned_round(history):
    engine, _, clock = history

    def source(key, tens):
        return ExpectedBand(np.full(len(tens), 0.1), np.full(len(tens), 0.3))

    query = SeriesQuery("queries", "docs", "", "", NOW - DAY, NOW, 3_600.0)
    course = asyncio.run(LiveSeries(engine, clock, 10.0, source).course(query))
    lower, upper = course.expected["zero_result"]
    assert (lower[0], upper[0]) == pytest.approx((0.1, 0.3))
    lower, upper = course.expected["attribution"]
    assert (lower[0], upper[0]) == pytest.approx((0.7, 0.9))
    figure = metric_figure(shown_metric("error"), course, TimeSpan(NOW - DAY, NOW), [])
    assert 'class="expected"' in figure.svg


def test_a_read_that_takes_too_long_is_given_up(history):
    engine, _, _ = history
    clock = ManualClock(NOW)
    monotonic = clock.monotonic
    clock.monotonic = lambda: clock.sleep(1.0) or monotonic()  # each look costs a second
    with pytest.raises(ReadTimeoutError, match=r"limits\.query_timeout"):
        asked(LiveSeries(engine, clock, 5.0), "queries", "docs", 39, DAY)


def test_a_running_daemon_says_what_its_detectors_expect(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW)) as site:
        batch = [
            {"pipeline": "docs", "timestamp": NOW - 60.0 * at} | ({"error": "x"} if at % 10 else {})
            for at in range(1_800)
        ]
        assert site.post("/v1/queries", batch).json["accepted"] == 1_800
        path = f"/v1/series?metric=error&pipeline=docs&from={NOW - HOUR}&to={NOW}&step=10m"
        points = eventually(
            lambda: [
                point
                for point in site.get(path).json["points"]
                if point["expected_upper"] is not None
            ]
        )
        assert all(point["expected_lower"] < 0.9 < point["expected_upper"] for point in points)
