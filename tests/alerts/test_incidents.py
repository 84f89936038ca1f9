"""Alerts that share a cause are one incident; others are not."""

import pytest
from msgspec.structs import replace

from ragmon.alerts import Evidence, SliceShare
from ragmon.alerts.as_json import describe_incident
from ragmon.alerts.incidents import incidents, open_incidents, suspect
from ragmon.alerts.machine import AlertBook, Suppressions, step
from ragmon.alerts.silences import Matcher, Silence
from ragmon.detectors import Measured
from tests.support.alerts import NOW, alert, finding

DAY = 86_400.0
BLAMED = SliceShare("version", "v2", 100.0, 0.5, 0.1, 0.9, 0.97)
SPREAD = SliceShare("version", "v2", 100.0, 0.5, 0.1, 0.3, 0.1)


def found(metric, kind="anomaly", *, part=("", ""), began=0.0, **given):
    return finding(metric, kind, part=part, changed_at=NOW + began, **given)


def book_of(*minutes, slices=(), elsewhere=(), suppressions=None):
    """The book after these findings, ten minutes apart.

    Args:
        minutes: their findings.
        slices: that drive what changes in the whole.
        elsewhere: what drives changes of slices.
        suppressions: silences.
    """

    def explain(one):
        drivers = elsewhere if one.alert.stream.dimension else slices
        return Evidence(sentence=one.alert.stream.metric, excess=50.0, slices=drivers)

    book = AlertBook()
    for at, findings in enumerate(minutes):
        moved = step(
            book,
            findings,
            NOW + 600.0 * at,
            explain,
            suppressions=suppressions or Suppressions(),
        )
        book = AlertBook.load(moved.book.dump())
    return book


def groups(book):
    """Metrics of each incident."""
    found = incidents((*book.open, *book.recent), NOW)
    return [sorted(each.key.stream.metric for each in one.alerts) for one in found]


def drift(metric, *, began=0.0):
    return found(metric, "drift", began=began - 6 * DAY)


HIT, ZERO, SLOW = found("hit"), found("zero_result"), found("latency")
API_DOWN = found("error", part=("channel", "api"))
CANARY_HIT, CANARY_SLOW = (
    found(metric, "canary", part=("version", "v2"), severity="critical")
    for metric in ("hit", "latency")
)


@pytest.mark.parametrize(
    ("minutes", "slices", "expected"),
    [
        pytest.param([[ZERO, HIT]], (), [["hit", "zero_result"]], id="cause and effect"),
        pytest.param([[HIT], [ZERO, HIT]], (), [["hit", "zero_result"]], id="effect first"),
        pytest.param([[HIT, SLOW]], (), [["hit"], ["latency"]], id="two causes at once"),
        pytest.param([[found("attribution")], [found("attribution"), found("grounding")]], (),
                     [["attribution", "grounding"]], id="answers that are worse in two ways"),
        pytest.param([[found("attribution", part=("tenant", "acme")), found("grounding")]], (),
                     [["attribution"], ["grounding"]], id="answers of a tenant, and of all"),
        pytest.param([[drift("hit")], [drift("hit"), drift("grounding", began=DAY)]], (),
                     [["grounding", "hit"]], id="drifts of cause and effect, a day apart"),
        pytest.param([[drift("hit")], [drift("hit"), found("hit", began=300.0)]], (),
                     [["hit", "hit"]], id="a fall in the midst of a drift"),
        pytest.param([[CANARY_HIT, CANARY_SLOW]], (), [["hit", "latency"]], id="a bad version"),
        pytest.param([[CANARY_SLOW, HIT]], (BLAMED,), [["hit", "latency"]],
                     id="a pipeline that is worse by its version"),
        pytest.param([[CANARY_SLOW, HIT]], (SPREAD,), [["hit"], ["latency"]],
                     id="and one that is not"),
        pytest.param([[CANARY_HIT], [CANARY_HIT, HIT]], (SPREAD,), [["hit", "hit"]],
                     id="a metric in a version, then in the whole"),
        pytest.param([[CANARY_HIT, found("hit", part=("channel", "chat"), began=600.0)]], (SPREAD,),
                     [["hit", "hit"]], id="a metric in a version and in a channel"),
        pytest.param([[CANARY_HIT, found("hit", part=("channel", "chat"), began=1_800.0)]],
                     (SPREAD,), [["hit"], ["hit"]], id="found at once, begun half an hour apart"),
        pytest.param([[found("hit", part=("tenant", name)) for name in ("acme", "globex")]], (),
                     [["hit"], ["hit"]], id="two tenants at once"),
        pytest.param([[API_DOWN], [API_DOWN, ZERO]], (SPREAD,), [["error", "zero_result"]],
                     id="an outage that one channel reports as errors"),
        pytest.param([[ZERO], [ZERO, API_DOWN]], (SPREAD,), [["error", "zero_result"]],
                     id="the same, the whole first"),
        pytest.param([[ZERO, API_DOWN]], (BLAMED,), [["error"], ["zero_result"]],
                     id="a version without results, a channel with errors"),
        pytest.param([[ZERO, found("error", part=("channel", "api"), began=600.0)]], (SPREAD,),
                     [["error"], ["zero_result"]], id="errors that began ten minutes later"),
        pytest.param([[HIT, replace(HIT, alert=HIT.alert._replace(
            stream=HIT.alert.stream._replace(pipeline="shop")))]], (), [["hit"], ["hit"]],
                     id="two pipelines"),
    ],
)  # fmt: skip
def test_what_shares_a_cause_is_one_incident(minutes, slices, expected):
    assert sorted(groups(book_of(*minutes, slices=slices))) == sorted(expected)


def test_what_begins_much_later_is_another_incident():
    graver = found("zero_result", severity="critical", began=3_600.0)
    book = book_of([HIT], [HIT], [HIT], [HIT], [HIT], [HIT], [HIT, graver])
    assert sorted(groups(book)) == [["hit"], ["zero_result"]]


def test_a_cause_does_not_join_what_was_there_before_it():
    late = found("attribution", part=("tenant", "acme"), began=60.0)
    outage = found("zero_result", severity="critical", began=3_600.0)
    book = book_of([], [], [], [], [], [late], [late, outage])
    assert sorted(groups(book)) == [["attribution"], ["zero_result"]]


def test_what_one_release_broke_is_one_incident_whenever_it_is_found():
    slow = found("latency", "canary", part=("version", "v2"), began=3_600.0)
    book = book_of(*[[CANARY_HIT]] * 6, [CANARY_HIT, slow])
    assert groups(book) == [["hit", "latency"]]


def test_a_slice_that_suffers_from_a_version_is_in_its_incident_however_late():
    late = found("hit", part=("channel", "api"), began=3_600.0)
    minutes = [*[[CANARY_SLOW]] * 6, [CANARY_SLOW, late]]
    assert len(groups(book_of(*minutes))) == 2
    book = book_of(*minutes, elsewhere=(BLAMED,))
    assert groups(book) == [["hit", "latency"]]
    (one,) = incidents(book.open, NOW)
    assert (one.cause.dimension, one.cause.value) == ("version", "v2")


def test_a_slice_that_becomes_the_whole_widens_its_incident():
    acme = found("hit", part=("tenant", "acme"))
    whole = found("hit", began=3_600.0, severity="critical")
    minutes = [*[[acme]] * 6, [acme, whole]]
    (one,) = incidents(book_of(*minutes).open, NOW)
    assert len(one.alerts) == 2
    assert not one.cause.dimension
    assert len(groups(book_of(*minutes, slices=(BLAMED,)))) == 2
    assert len(groups(book_of(*[[acme]] * 6, [], [whole]))) == 2


def outages(again, *left, **given):
    """Incidents of an outage, twenty minutes with what it left, and an outage again.

    Args:
        again: seconds after the first, when the second began.
        left: what is bad all the time.
        given: of ``book_of``.
    """
    first = found("zero_result", severity="critical")
    second = replace(first, changed_at=NOW + again)
    return groups(book_of([first, *left], left, left, [second, *left], **given))


RATINGS = found("positive_feedback", part=("channel", "chat"), began=-3_600.0)


def test_a_second_outage_is_an_incident_of_its_own_although_ratings_are_low_since_the_first():
    assert outages(1_800.0, RATINGS) == [["zero_result"], ["positive_feedback", "zero_result"]]


def test_an_average_that_is_still_bad_does_not_hide_the_second_outage():
    mean = found("error", "threshold", window_s=900.0)
    mean = replace(mean, changed_at=None)
    assert sorted(outages(1_860.0, mean)) == [["error"], ["zero_result"], ["zero_result"]]


def test_an_outage_that_comes_back_within_minutes_is_the_same():
    again = found("zero_result", severity="critical", began=1_100.0)
    book = book_of([ZERO, RATINGS], [RATINGS], [again, RATINGS])
    assert groups(book) == [["positive_feedback", "zero_result", "zero_result"]]


def test_what_comes_back_while_a_cause_lasts_is_in_its_incident():
    again = found("hit", began=1_200.0)
    book = book_of([CANARY_HIT, HIT], [CANARY_HIT], [CANARY_HIT, again], slices=(SPREAD,))
    assert groups(book) == [["hit", "hit", "hit"]]


def test_an_outage_began_when_it_did_and_not_with_an_effect_that_was_weak_before():
    outage = found("zero_result", severity="critical")
    one_minute, ten_minutes = book_of([outage, RATINGS]), book_of([outage, RATINGS], [RATINGS])
    for book in (one_minute, ten_minutes):
        (incident,) = incidents((*book.open, *book.recent), NOW)
        assert incident.began_at == NOW
        assert "since 21:20 UTC" in incident.headline


def test_a_storm_of_retries_is_part_of_the_outage_that_makes_clients_retry():
    storm = found("repeat", "repeats", severity="info", began=120.0)
    book = book_of([found("error")], [found("error"), storm])
    assert groups(book) == [["error", "repeat"]]
    assert [each.inhibited_by != "" for each in book.open] == [False, True]


def test_a_storm_of_retries_alone_makes_nothing_worse():
    storm = found("repeat", "repeats", severity="info")
    (one,) = incidents(book_of([storm]).open, NOW)
    assert one.severity == "info"
    assert one.headline == "repeat"  # the sentence of its evidence


def test_a_metric_that_is_known_to_be_worse_in_the_slice_is_no_news():
    late = [found(name, began=1_800.0) for name in ("hit", "latency")]
    book, told = AlertBook(), []
    for at, findings in enumerate(
        [[CANARY_HIT], *[[CANARY_HIT, late[0]]] * 30, *[[CANARY_HIT, *late]] * 30]
    ):
        moved = step(
            book,
            findings,
            NOW + 60.0 * at,
            lambda one: Evidence(sentence="", excess=50.0, slices=(BLAMED,)),
        )
        book, told = moved.book, [*told, *(f"{at} {each.change}" for each in moved.notices)]
    assert told == ["0 opened", "31 grew"]


def test_an_incident_ends_with_its_last_alert_and_begins_with_its_first():
    late = found("zero_result", began=120.0)
    book = book_of([HIT], [HIT, late], [late])
    (one,) = incidents((*book.open, *book.recent), NOW)
    assert one.ended_at is None
    assert one.began_at == NOW
    assert one.detected_at == NOW
    book = book_of([HIT], [HIT, late], [late], [], [], [], [])
    (one,) = incidents((*book.open, *book.recent), NOW)
    assert one.ended_at is not None
    assert describe_incident(one).state == "resolved"


def test_the_headline_names_the_cause_then_the_symptoms():
    whole = found("hit")
    version = found(
        "hit",
        "canary",
        part=("version", "v2"),
        severity="critical",
        observed=Measured(0.52, 0.4, 0.6, 100),
        reference=Measured(0.18, 0.1, 0.2, 900),
    )
    book = book_of([whole, version, CANARY_SLOW], slices=(BLAMED,))
    (one,) = incidents(book.open, NOW)
    assert one.headline == (
        "version v2 of docs is worse since 21:20 UTC: slow queries 12 % (7 %), hit rate 48 % (82 %)"
    )
    assert (one.cause.dimension, one.cause.value) == ("version", "v2")
    assert one.cause.probability == pytest.approx(0.97)
    assert one.severity == "critical"
    assert describe_incident(one).bad_queries == pytest.approx(34.0)


def test_where_no_slice_explains_it_the_headline_says_so():
    (one,) = incidents(book_of([HIT], slices=(SPREAD,)).open, NOW)
    assert one.headline == (
        "docs is worse since 21:20 UTC (no single slice explains it): hit rate 88 % (93 %)"
    )
    assert one.cause.probability is None


def test_a_slice_blames_itself():
    blamed = suspect(alert(found("hit", part=("tenant", "acme"))))
    assert (blamed.text, blamed.probability) == ("tenant acme", None)


def test_open_incidents_are_counted_by_their_gravest_alert():
    book = book_of([CANARY_HIT, found("uncited", "canary", part=("version", "v2")), SLOW])
    assert open_incidents(book.open) == {"info": 0, "warning": 1, "critical": 1}
    quiet = Silence(
        id="s1", matchers=(Matcher("pipeline", "docs"),), starts_at=0.0, ends_at=NOW * 2.0
    )
    book = book_of([CANARY_HIT, SLOW], suppressions=Suppressions(silences=(quiet,)))
    assert open_incidents(book.open) == {"info": 0, "warning": 0, "critical": 0}


def test_a_pending_alert_is_in_no_incident():
    book = book_of([found("zero_result", "threshold")])
    assert [each.incident_id for each in book.open] == [""]
    assert groups(book) == []


def test_a_drift_hides_no_sudden_fall():
    book = book_of([drift("hit")], [drift("hit"), found("hit"), found("hit", "regression")])
    explained = {each.key.kind: bool(each.inhibited_by) for each in book.open}
    assert explained == {"anomaly": False, "drift": False, "regression": True}
