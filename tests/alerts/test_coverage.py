"""Random histories: whatever fires is known to somebody, as grave as it is, at every moment."""

from hypothesis import given, settings
from hypothesis import strategies as st

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
    st.sampled_from((0.0, 0.0, 0.8)),
)
silences = st.tuples(
    st.sampled_from((("metric", "zero_result"), ("metric", "hit"), ("type", "threshold"))),
    st.integers(0, MINUTES - 1),
    st.integers(1, 20),
)


def findings(history, minute):
    """Of a spell that overlaps another of its alert the later one counts."""
    by_key = {}
    for key, begins, lasts, severity, status, recovered in history:
        if begins <= minute < begins + lasts:
            by_key[key] = Finding(alert=key, status=status, severity=severity, recovered=recovered)
    return list(by_key.values())


def silence(number, kept):
    (name, value), begins, lasts = kept
    return Silence(
        id=f"s{number}",
        matchers=(Matcher(name, value),),
        starts_at=NOW + 60.0 * begins,
        ends_at=NOW + 60.0 * (begins + lasts),
    )


def covering(alert, book):
    """The open alert that people know in place of this one."""
    by_name = {each.fingerprint: each for each in book.open}
    while alert.inhibited_by:
        alert = by_name[alert.inhibited_by]
    return alert


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(spells, min_size=1, max_size=25),
    st.lists(silences, max_size=3),
    st.sampled_from((0.0, 120.0)),
)
def test_somebody_was_told_of_something_as_grave(history, quiet, wait):
    timing = Timing(wait={"threshold": wait})
    suppressions = Suppressions(silences=tuple(map(silence, range(len(quiet)), quiet)))
    book, told = AlertBook(), {}
    for minute in range(MINUTES + 75):
        now = NOW + 60.0 * minute
        book, events = step(
            book,
            findings(history, minute),
            now,
            lambda found: Evidence(sentence=found.alert.stream.metric),
            timing=timing,
            suppressions=suppressions,
        )
        book = AlertBook.load(book.dump())
        for each in events:
            if each.notify:
                told[each.alert.episode] = each.alert.severity
                assert (each.change == "resolved") == (each.alert.state == "resolved")
        for alert in book.open:
            if alert.state == "firing" and not alert.silenced_by:
                known = covering(alert, book)
                assert known.state in ("firing", "no_data")
                assert not graver(alert.severity, told[known.episode])
                assert alert.incident_id
                assert alert.notified_at is not None or alert.incident_id == known.incident_id
