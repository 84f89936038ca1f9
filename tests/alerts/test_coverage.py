"""Random histories: whatever fires is known to somebody, as grave as it is, at every moment."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragmon.alerts import Evidence, graver
from ragmon.alerts.machine import AlertBook, Suppressions, Timing, step
from ragmon.alerts.silences import Matcher, Silence
from ragmon.detectors import AlertKey, Finding, StreamKey

NOW = 1_740_000_000.0
MINUTES = 40
KEYS = (
    AlertKey("no_data", StreamKey("docs", "traffic")),
    AlertKey("no_data", StreamKey("", "traffic", "source", "http")),
    AlertKey("anomaly", StreamKey("docs", "error")),
    AlertKey("anomaly", StreamKey("docs", "zero_result")),
    AlertKey("threshold", StreamKey("docs", "zero_result"), "0.3/900s"),
    AlertKey("anomaly", StreamKey("docs", "zero_result", "channel", "chat")),
    AlertKey("anomaly", StreamKey("docs", "hit")),
    AlertKey("regression", StreamKey("docs", "hit")),
    AlertKey("drift", StreamKey("docs", "hit")),
    AlertKey("anomaly", StreamKey("docs", "hit", "tenant", "acme")),
    AlertKey("anomaly", StreamKey("docs", "latency")),
    AlertKey("threshold", StreamKey("docs", "slow"), "0.2/900s"),
    AlertKey("canary", StreamKey("docs", "hit", "version", "v2")),
    AlertKey("canary", StreamKey("docs", "uncited", "version", "v2")),
    AlertKey("anomaly", StreamKey("other", "hit")),
)

spells = st.tuples(
    st.sampled_from(KEYS),
    st.integers(0, MINUTES - 1),  # the first minute
    st.integers(1, 30),  # minutes
    st.sampled_from(("info", "warning", "warning", "critical")),
    st.sampled_from(("bad", "bad", "bad", "unknown")),
)
silences = st.tuples(
    st.sampled_from((("metric", "zero_result"), ("metric", "hit"), ("type", "threshold"))),
    st.integers(0, MINUTES - 1),
    st.integers(1, 20),
)


def findings(history, minute):
    """Of a spell that overlaps another of its alert the later one counts."""
    by_key = {}
    for key, begins, lasts, severity, status in history:
        if begins <= minute < begins + lasts:
            by_key[key] = Finding(alert=key, status=status, severity=severity)
    return list(by_key.values())


def silence(number, kept):
    (name, value), begins, lasts = kept
    return Silence(
        id=f"s{number}",
        matchers=(Matcher(name, value),),
        starts_at=NOW + 60.0 * begins,
        ends_at=NOW + 60.0 * (begins + lasts),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(spells, min_size=1, max_size=25),
    st.lists(silences, max_size=3),
    st.sampled_from((0.0, 120.0)),
)
def test_somebody_was_told_of_something_as_grave(history, quiet, wait):
    """Only the notifications are believed, as a receiver would have them."""
    timing = Timing(wait={"threshold": wait})
    suppressions = Suppressions(silences=tuple(map(silence, range(len(quiet)), quiet)))
    book, known, spoken = AlertBook(), {}, {}
    for minute in range(MINUTES + 35):
        now = NOW + 60.0 * minute
        moved = step(
            book,
            findings(history, minute),
            now,
            lambda found: Evidence(sentence=found.alert.stream.metric),
            timing=timing,
            suppressions=suppressions,
        )
        book = AlertBook.load(moved.book.dump())
        for notice in moved.notices:
            check_notice(notice, known, spoken)
        check_alerts(book, known)
    assert {each.incident_id for each in book.open if each.leads} == known.keys()


def check_notice(notice, known, spoken):
    """One opening, one end, updates at intervals, and what is known by its labels is ended."""
    before = known.get(notice.incident_id)
    assert (before is None) == (notice.change == "opened")
    if notice.change == "grew":
        assert notice.at - spoken[notice.incident_id] >= 900.0
    if notice.change == "escalated":
        assert graver(notice.severity, before["severity"])
    if before is not None:
        assert before == (notice.former_labels or notice.labels)
    assert notice.labels["severity"] == notice.severity
    spoken[notice.incident_id] = notice.at
    known[notice.incident_id] = notice.labels
    if notice.change == "resolved":
        del known[notice.incident_id]


def check_alerts(book, known):
    """Whatever fires unsilenced is in one incident that is known, at its severity or a higher."""
    by_name = {alert.fingerprint: alert for alert in book.open}
    for alert in book.open:
        if alert.state == "firing" and not alert.silenced_by:
            assert not graver(alert.severity, known[alert.incident_id]["severity"])
        if alert.inhibited_by:
            cause = by_name[alert.inhibited_by]
            assert not graver(alert.severity, cause.severity)
            assert cause.state in ("firing", "no_data")
            assert not cause.silenced_by
    still = {alert.incident_id for alert in book.open if alert.incident_id}
    assert known.keys() <= still, "what is over was told"
    leading = [alert.incident_id for alert in book.open if alert.leads]
    assert len(set(leading)) == len(leading)
    loud = {alert.incident_id for alert in book.open if alert.is_loud} & known.keys()
    assert set(leading) == loud


def test_a_member_that_becomes_graver_raises_its_incident():
    """For every pair of alerts of one pipeline, whichever is the cause."""
    pairs = 0
    for one in KEYS:
        for other in KEYS:
            mild = [Finding(alert=key, status="bad", severity="warning") for key in (one, other)]
            grave = [mild[0], replace(mild[1], severity="critical")]
            if one == other:
                continue
            timing = Timing(wait={})
            first = step(AlertBook(), mild, NOW, explain, timing=timing)
            second = step(first.book, grave, NOW + 60.0, explain, timing=timing)
            told = [(each.change, each.severity) for each in second.notices]
            assert told == [("escalated", "critical")]
            member = next(each for each in second.book.open if each.key == other)
            assert second.notices[0].incident_id == member.incident_id
            pairs += 1
    assert pairs == len(KEYS) * (len(KEYS) - 1)


def explain(found):
    return Evidence(sentence=found.alert.stream.metric)
