"""Live detection: history is followed, the present is judged, a restart changes nothing."""

import random
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from ragmon.alerts.silences import Matcher, Silence
from ragmon.alerts.timeline import Examples
from ragmon.errors import StoreFullError
from ragmon.exposition.negotiation import TEXT
from ragmon.exposition.text import render
from ragmon.records import Feedback, QueryRecord
from tests.support.examples import DAY_S, NOON, chunks, record
from tests.support.vigil import Vigil

HOURS = 30
PER_MINUTE = 6
SINKS = {"sinks": [{"kind": "stdout"}]}


def query(name: str, at: float, *, found: bool, hit: bool = True, **fields) -> QueryRecord:
    return record(
        name,
        at=at,
        pipeline="docs",
        version="v1",
        query=f"where is {name}, asks jane@example.com",
        chunks=chunks("a", "b") if found else [],
        relevant_ids=["a"] if hit else ["z"],
        **fields,
    )


def traffic(
    first: float, minutes: int, empty: float = 0.02, per_minute: int = PER_MINUTE, name: str = "q"
) -> list[QueryRecord]:
    """Steady queries, some of which find nothing."""
    rng = random.Random(f"{first} {name}")
    return [
        query(
            f"{name}{int(first)}-{minute}-{each}",
            first + 60.0 * (minute + (each + 0.5) / per_minute),
            found=rng.random() >= empty,
        )
        for minute in range(minutes)
        for each in range(per_minute)
    ]


def batches(records: list[QueryRecord]) -> Iterator[list[QueryRecord]]:
    return (records[at : at + 500] for at in range(0, len(records), 500))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A store that has seen a quiet day and more, until noon."""
    root = tmp_path_factory.mktemp("known")
    vigil = Vigil(root, NOON, **SINKS)
    for records in batches(traffic(NOON - HOURS * 3_600, HOURS * 60)):
        vigil.commit(records)
        vigil.tick()
    vigil.tick()
    assert not vigil.alerting.timeline.catching_up
    assert vigil.events() == []
    vigil.end()
    return vigil.directory


def test_history_is_followed_and_nobody_is_told_of_what_was_over(tmp_path):
    vigil = Vigil(tmp_path, NOON, **SINKS)
    outage = NOON - 4 * 3_600
    before = traffic(NOON - 20 * 3_600, 16 * 60)
    during, after = traffic(outage, 40, empty=1.0), traffic(outage + 2_400, 200)
    for records in (before, during, after):
        vigil.commit(records)
        vigil.tick()
        vigil.tick(1.0)
    changes = [
        (event.change, event.at)
        for event in vigil.events()
        if event.alert.key.kind == "anomaly" and event.alert.key.stream.metric == "zero_result"
    ]
    assert [change for change, _ in changes] == ["firing", "resolved"]
    assert outage < changes[0][1] < outage + 600
    assert outage + 2_400 < changes[1][1] < outage + 3_000
    assert vigil.notified() == []
    vigil.end()


def test_what_still_fires_when_history_ends_is_heard_at_once(tmp_path):
    vigil = Vigil(tmp_path, NOON + 59.0, **SINKS)  # the newest query is as old as the last minute
    outage = NOON - 3_600
    for records in (traffic(NOON - 20 * 3_600, 19 * 60), traffic(outage, 61, empty=1.0)):
        for batch in batches(records):
            vigil.commit(batch)
            vigil.tick()
    assert not vigil.alerting.timeline.catching_up
    firing = [each for each in vigil.alerting.timeline.book.open if each.state == "firing"]
    heard = [each for each in firing if not each.inhibited_by]
    assert heard
    assert [each.silenced_by for each in heard] == [""] * len(heard)
    assert vigil.notified() != []
    vigil.end()


def test_an_outage_is_notified_within_minutes_and_resolved_once(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known, **SINKS)
    for minute in range(45):
        vigil.commit(traffic(NOON + 60 * minute, 1, empty=1.0 if 5 <= minute < 15 else 0.0))
        vigil.tick(60.0)
    heard = vigil.notices()
    assert [notice.change for notice in heard] == ["opened", "resolved"]
    assert [notice.sinks for notice in heard] == [("stdout",)] * 2
    assert NOON + 300 < heard[0].at <= NOON + 720
    # With the last of its symptoms: the limit on the mean of a quarter of an hour.
    assert NOON + 900 < heard[1].at <= NOON + 2_400
    assert vigil.alerting.book.open == ()
    assert [name for _, name in vigil.notified()] == [notice.id for notice in heard]
    alert = heard[0].alert
    assert alert.name == "RagmonZeroResults"
    assert alert.evidence.worst[0].query.endswith("asks [email]")
    assert {each.why for each in alert.evidence.worst} == {"nothing was retrieved"}
    assert len({each.query_id for each in alert.evidence.worst}) == 5
    (family,) = (each for each in vigil.alerting.metrics.collect()
                 if each.name == "ragmon_evidence_lookups")  # fmt: skip
    assert {each.labels["outcome"] for each in family.samples if each.value} == {"done"}
    vigil.end()


def test_evidence_that_is_not_found_in_time_follows_even_after_a_crash(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known, **SINKS)
    vigil.alerting._examples.look_up = lambda alerts, _is_ending: {
        alert.episode: Examples(lookup="waiting") for alert in alerts
    }
    for minute in range(20):
        vigil.commit(traffic(NOON + 60 * minute, 1, empty=1.0 if minute >= 5 else 0.0))
        vigil.tick(60.0)
    heard = vigil.notices()
    assert [notice.change for notice in heard][:1] == ["opened"]
    assert heard[0].alert.evidence.lookup == "waiting"
    vigil.crash()
    vigil.tick(1.0)
    lead = next(alert for alert in vigil.alerting.book.open if alert.leads)
    assert lead.evidence.lookup == "done"
    assert len(lead.evidence.worst) == 5
    vigil.crash()  # and it was saved
    assert next(alert for alert in vigil.alerting.book.open if alert.leads) == lead
    vigil.end()


Step = tuple[str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["queries", "late", "rated", "tick", "tick", "snapshot"]), st.integers(0, 9)
    ),
    min_size=8,
    max_size=40,
)


def play(vigil: Vigil, story: list[Step], between: Callable[[int], None]) -> None:
    """The same records at the same times; ``between`` is called after every step."""
    sent: list[str] = []
    for at, (what, size) in enumerate(story):
        now = vigil.clock.now()
        if what == "queries":
            empty = 1.0 if size > 4 else 0.0
            records = traffic(now - 30.0, 1, empty, per_minute=1 + 4 * size, name=f"s{at}-")
            vigil.commit(records)
            sent += [each.query_id for each in records]
        elif what == "late":
            vigil.commit(traffic(now - 60.0 * 15 * size, 1, 0.5, name=f"l{at}-"))
        elif what == "rated" and sent:
            vigil.commit(
                changes=[
                    Feedback(query_id=each, rating=-1.0, timestamp=now) for each in sent[-size:]
                ]
            )
        elif what == "snapshot":
            vigil.snapshot()
        else:
            vigil.tick(5.0 + 10.0 * size)
        between(at)
    for _ in range(6):
        vigil.commit(traffic(vigil.clock.now() - 30.0, 1, 1.0, per_minute=20, name="end"))
        vigil.tick(60.0)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps, st.sets(st.integers(0, 40), min_size=1, max_size=4))
def test_a_process_that_is_killed_at_any_time_ends_up_where_the_other_does(
    known, tmp_path_factory, story, kills
):
    root = tmp_path_factory.mktemp("twins")
    steady, killed = (Vigil(root / name, NOON, known, **SINKS) for name in ("steady", "killed"))
    play(steady, story, lambda _at: None)
    play(killed, story, lambda at: killed.crash() if at in kills else None)
    assert killed.events() == steady.events()
    assert killed.notices() == steady.notices()
    assert killed.notified() == steady.notified()
    assert killed.alerting.timeline.book == steady.alerting.timeline.book
    assert killed.state() == steady.state()
    steady.end()
    killed.end()


def test_one_that_is_killed_before_its_first_turn_begins_where_the_other_did(tmp_path):
    first = traffic(NOON, 1)
    steady, killed = (Vigil(tmp_path / name, NOON + 58.0, **SINKS) for name in ("one", "two"))
    for vigil in (steady, killed):
        vigil.commit(first)
    steady.tick()  # in the minute of the first query
    killed.crash()
    for vigil in (steady, killed):
        for minute in range(5):
            vigil.commit(traffic(NOON + 60.0 * (minute + 1), 1, empty=0.5))
            vigil.tick(60.0)
    assert killed.state() == steady.state()
    steady.end()
    killed.end()


def test_a_disk_that_is_full_for_a_while_loses_and_repeats_nothing(known, tmp_path, monkeypatch):
    vigil = Vigil(tmp_path, NOON, known, **SINKS)
    log = vigil.engine.state.alert_log()
    save = log.save

    def full(turn):
        raise StoreFullError("no space left")

    for minute in range(20):
        monkeypatch.setattr(log, "save", full if 6 <= minute < 12 else save)
        vigil.commit(traffic(NOON + 60 * minute, 1, empty=1.0 if minute >= 5 else 0.0))
        if 6 <= minute < 12:
            with pytest.raises(StoreFullError):
                vigil.tick(60.0)
        else:
            vigil.tick(60.0)
    heard = [notice.change for notice in vigil.notices()]
    assert heard == ["opened"]
    before = vigil.state()
    vigil.crash()
    assert vigil.state() == before
    vigil.end()


def test_the_monitors_own_absence_is_no_silence(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known, **SINKS)
    vigil.commit(traffic(NOON, 1))
    vigil.tick(120.0)
    vigil.clock.sleep(2 * 3_600)
    vigil.crash()
    vigil.tick()
    for _ in range(10):
        vigil.commit(traffic(vigil.clock.now(), 1))
        vigil.tick(60.0)
    assert vigil.notices() == []
    assert vigil.alerting.detection.log.frontier == int(vigil.clock.now() - 60.0) // 60
    vigil.end()


@pytest.mark.parametrize(
    "back", [pytest.param(1_800.0, id="half an hour"), pytest.param(2 * DAY_S, id="two days")]
)
def test_a_clock_that_steps_back_does_not_end_detection(known, tmp_path, back):
    vigil = Vigil(tmp_path, NOON, known)
    vigil.tick(300.0)
    vigil.clock.sleep(-back)
    for _ in range(40):
        vigil.commit(traffic(vigil.clock.now(), 1))
        vigil.tick(60.0)
    assert vigil.alerting.detection.log.frontier == int(vigil.clock.now() - 60.0) // 60
    vigil.end()


def test_a_restart_after_detection_began_anew_reads_nothing_of_before(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known)
    vigil.tick(300.0)
    vigil.clock.sleep(-2 * DAY_S)
    for minute in range(10):  # first of one pipeline, which takes the row that another one had
        now = vigil.clock.now()
        vigil.commit([record(f"new-{minute}", now, pipeline="new", chunks=chunks("a"))])
        vigil.tick(60.0)
    state = vigil.state()
    with capture_logs() as logs:
        vigil.crash()
    assert [entry["event"] for entry in logs if entry["event"].startswith("detection_")] == []
    assert vigil.state() == state
    vigil.end()


def test_a_silence_holds_until_it_is_deleted_and_the_alert_is_then_heard(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known, **SINKS)
    silence = Silence(
        id="s1",
        matchers=(Matcher("alertname", "Ragmon.*", regex=True),),
        starts_at=NOON,
        ends_at=NOON + 3_600,
    )
    call = vigil.engine.thread.submit
    call(lambda: vigil.alerting.silence(silence)).result()
    for minute in range(20):
        if minute == 10:
            vigil.crash()  # silences are kept
            call = vigil.engine.thread.submit
        if minute == 15:
            assert call(lambda: vigil.alerting.unsilence("s1")).result()
        vigil.commit(traffic(NOON + 60 * minute, 1, empty=1.0))
        vigil.tick(60.0)
    heard = [(notice.change, notice.at) for notice in vigil.notices()]
    assert [change for change, _ in heard] == ["opened"]
    assert heard[0][1] >= NOON + 14 * 60
    assert not call(lambda: vigil.alerting.unsilence("s1")).result()
    vigil.end()


def test_expressions_that_would_take_for_ever_meet_an_alert_that_fires(known, tmp_path):
    """An engine that backtracks tries 2 to the power of 40 ways, on the writer's thread."""
    pipeline = "a" * 40 + "!"
    rule = {"kind": "threshold", "metric": "zero_result", "limit": 0.1, "window": 300.0}
    vigil = Vigil(tmp_path, NOON, known, **SINKS, detectors={"rules": [rule | {"min_samples": 5}]})
    call = vigil.engine.thread.submit

    def silence(name: str, expression: str) -> None:
        matchers = (Matcher("pipeline", expression, regex=True),)
        made = Silence(id=name, matchers=matchers, starts_at=NOON, ends_at=NOON + DAY_S)
        call(lambda: vigil.alerting.silence(made)).result()

    def play(minutes: range) -> set[str]:
        for minute in minutes:
            records = traffic(NOON + 60 * minute, 1, empty=1.0)
            vigil.commit([replace(each, pipeline=pipeline) for each in records])
            vigil.tick(60.0)
        alerts = [each for each in vigil.alerting.book.open if each.key.stream.pipeline == pipeline]
        return {each.silenced_by for each in alerts if each.state == "firing"}

    silence("s1", "(a+)+$")
    silence("s2", "(a|aa|a?a+)*b")
    began = time.process_time()
    assert play(range(20)) == {""}
    silence("s3", "(a+)+!")
    assert play(range(20, 23)) == {"s3"}
    assert time.process_time() - began < 20.0
    vigil.end()


def test_a_flood_of_history_is_judged_while_it_comes(tmp_path):
    vigil = Vigil(tmp_path, NOON)
    vigil.commit(traffic(NOON - 20 * 3_600, 300, per_minute=80))
    frontier = vigil.alerting.detection.log.frontier
    assert frontier > (NOON - 20 * 3_600) / 60 + 290  # without a tick
    vigil.end()


def test_what_a_restart_replays_leaves_the_writer_to_commits(known, tmp_path, monkeypatch):
    story = [traffic(NOON + 60 * minute, 1, empty=0.5) for minute in range(24)]
    steady, late = (Vigil(tmp_path / name, NOON, known) for name in ("steady", "late"))
    for minute in story:
        steady.commit(minute)
    for minute in story[:20]:
        late.commit(minute)
    for limit in ("_STEP_S", "_TURN_S"):  # as if every step took too long
        monkeypatch.setattr(f"ragmon.daemon.alerting.loop.{limit}", 0.0)
    late.crash()
    for minute in story[20:]:
        late.tick()
        late.commit(minute)
    assert late.alerting.on_commit not in late.engine.committer._listeners  # they came in between
    monkeypatch.undo()
    late.tick(24 * 60.0)
    steady.tick(24 * 60.0)
    assert late.state() == steady.state()
    assert late.events() == steady.events()
    steady.end()
    late.end()


def test_metrics_of_alerts_and_detectors(known, tmp_path):
    vigil = Vigil(tmp_path, NOON, known)
    for minute in range(12):
        vigil.commit(traffic(NOON + 60 * minute, 1, empty=1.0))
        vigil.tick(60.0)
    page = render(vigil.own.families(), TEXT).decode()
    labels = '{alert="RagmonZeroResults",pipeline="docs",severity="warning"}'
    state = 'ragmon_alert_state{alert="RagmonZeroResults",pipeline="docs",severity='
    assert f'{state}"critical",state="active"}} 2\n' in page
    assert f'{state}"warning",state="suppressed"}} 2\n' in page
    assert f"ragmon_alerts_fired_total{labels} " in page
    until = vigil.alerting.detection.log.frontier * 60.0
    (line,) = (x for x in page.splitlines() if x.startswith("ragmon_detection_timestamp_seconds"))
    assert float(line.split()[1]) == until
    assert "ragmon_detection_streams_dropped_total 0\n" in page
    vigil.end()


@pytest.fixture
def counted(known, tmp_path, monkeypatch):
    """A daemon of the present, and the sizes of the batches that its detectors count."""
    vigil, sizes = Vigil(tmp_path, NOON, known, **SINKS), []
    vigil.tick(60.0)
    fold = vigil.alerting.detection.fold
    monkeypatch.setattr(
        vigil.alerting.detection, "fold", lambda batch: (sizes.append(len(batch)), fold(batch))
    )
    yield vigil, sizes
    vigil.end()


def test_records_of_the_present_are_counted_together_and_in_time_for_their_minute(counted):
    vigil, sizes = counted
    vigil.tick(5.0)
    for turn in range(20):
        now = vigil.clock.now()
        vigil.commit([query(f"one-{turn}", now, found=True)])
        vigil.tick(1.0)
    assert sizes == [5, 5, 5, 5]
    vigil.commit([query("last", vigil.clock.now(), found=True)])
    vigil.clock.sleep(60.0)
    vigil.commit([query("of the next minute", vigil.clock.now(), found=True)])
    vigil.alerting.turn()
    assert sizes[4:] == [2]
    detection = vigil.alerting.detection
    (row,) = (
        row
        for key, row in detection.streams.rows.items()
        if (key.metric, key.dimension) == ("traffic", "")
    )
    judged = range(int(NOON // 60), detection.log.frontier)
    assert sum(detection.log.span(minute, minute + 1)[row, 0] for minute in judged) == 21


def test_many_records_wait_for_nothing(counted, monkeypatch):
    from ragmon.daemon.alerting import loop

    monkeypatch.setattr(loop, "_MANY_RECORDS", 6)
    vigil, sizes = counted
    vigil.tick(5.0)
    for turn in range(2):
        vigil.commit(traffic(vigil.clock.now() - 60.0, 1, name=f"many{turn}"))
        vigil.tick(0.1)
    assert sizes == [PER_MINUTE, PER_MINUTE]


def test_a_clock_that_was_set_back_is_noticed_at_once(counted):
    vigil, sizes = counted
    vigil.clock.step(-2 * DAY_S)
    vigil.commit([query("after", vigil.clock.now(), found=True)])
    vigil.tick(0.1)
    assert sizes == [1]


def test_streams_without_room_are_logged_once_by_each_process(tmp_path):
    vigil = Vigil(tmp_path, NOON, detectors={"first_days": 0, "max_streams": 3})
    for _ in range(2):
        with capture_logs() as logged:
            for _ in range(3):
                vigil.commit(traffic(vigil.clock.now(), 1))
                vigil.tick(60.0)
        (line,) = (each for each in logged if each["event"] == "streams_not_watched")
        assert (line["limit"], line["log_level"]) == (3, "warning")
        assert "detectors.max_streams" in line["remedy"]
        vigil.crash()
    vigil.end()
