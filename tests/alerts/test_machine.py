"""Findings in, transitions out: nothing twice, nothing forgotten."""

import time

import pytest
from msgspec.structs import replace

from ragmon.alerts import Evidence
from ragmon.alerts.machine import AlertBook, Suppressions, Timing, step
from ragmon.alerts.silences import Maintenance, Matcher, Silence
from ragmon.detectors import AlertKey, Finding, StreamKey

NOW = 1_740_000_000.0


def finding(metric="hit", kind="anomaly", status="bad", severity="warning", dimension="", rule=""):
    stream = StreamKey("docs", metric, dimension, "acme" if dimension else "")
    return Finding(alert=AlertKey(kind, stream, rule), status=status, severity=severity)


def receding(found, share=0.8):
    return replace(found, recovered=share)


def explain(found):
    return Evidence(sentence=found.alert.stream.metric)


def run(minutes, *, timing=None, suppressions=None, book=None):
    """Findings by minute; returns (minute, change, metric, heard) of each transition."""
    book, seen, ids = book or AlertBook(), [], []
    for at, findings in enumerate(minutes):
        book, events = step(
            book,
            findings,
            NOW + 60.0 * at,
            explain,
            timing=timing or Timing(),
            suppressions=suppressions(at) if suppressions else Suppressions(),
        )
        book = AlertBook.load(book.dump())  # a restart in every minute
        ids += [each.id for each in events]
        seen += [(at, each.change, each.alert.key.stream.metric, each.notify) for each in events]
    assert len(set(ids)) == len(ids)
    return seen


BAD, SURE = [finding()], [finding(kind="threshold")]
UNKNOWN = [finding(status="unknown")]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param([BAD, BAD, []], ["0 firing!", "2 resolved!"], id="fires once, resolves once"),
        pytest.param([UNKNOWN, []], [], id="silence does not fire"),
        pytest.param(
            [BAD, UNKNOWN, UNKNOWN, BAD, []],
            ["0 firing!", "1 no_data", "3 firing", "4 resolved!"],
            id="nor does it resolve",
        ),
        pytest.param(
            [SURE, SURE, SURE], ["0 pending", "2 firing!"], id="a plain limit waits two minutes"
        ),
        pytest.param([SURE, [], SURE], ["0 pending", "1 inactive", "2 pending"], id="in a row"),
        pytest.param(
            [SURE, SURE, SURE, [], SURE, *[[]] * 6],
            ["0 pending", "2 firing!", "9 resolved!"],
            id="and is kept for five after",
        ),
        pytest.param(
            [BAD] * 242, ["0 firing!", "240 renotified!"], id="is repeated after four hours"
        ),
    ],
)
def test_transitions(minutes, expected):
    assert [f"{at} {change}{'!' * heard}" for at, change, _, heard in run(minutes)] == expected


ERROR, ZERO, HIT = finding("error"), finding("zero_result"), finding("hit")
FAITH = finding("faithfulness")
PART, BELOW = finding(dimension="tenant"), finding(kind="regression")


@pytest.mark.parametrize(
    ("minutes", "heard"),
    [
        pytest.param([[ZERO, HIT, FAITH]], ["0 zero_result"], id="a cause speaks for symptoms"),
        pytest.param([[HIT, FAITH]], ["0 hit"], id="whichever is nearest to the root"),
        pytest.param([[ZERO], [ZERO, HIT], [HIT], [HIT], [], []],
                     ["0 zero_result", "4 zero_result"], id="and ends with them"),
        pytest.param([[ZERO], [], [HIT]], ["0 zero_result", "1 zero_result", "2 hit"],
                     id="what comes later is news"),
        pytest.param([[HIT, PART], *[[PART]] * 17], ["0 hit", "15 hit", "15 hit"],
                     id="what stays bad for a quarter of an hour after is news"),
        pytest.param([[HIT, PART], *[[receding(PART)]] * 58, [], []], ["0 hit", "59 hit"],
                     id="but not while it gets better"),
        pytest.param([[HIT, PART], *[[receding(PART)]] * 70], ["0 hit", "60 hit", "60 hit"],
                     id="unless that takes more than an hour"),
        pytest.param([[HIT], [], *[[receding(PART)]] * 2], ["0 hit", "1 hit", "2 hit"],
                     id="and what began later is news either way"),
        pytest.param([[HIT], [HIT, BELOW], *[[BELOW]] * 20, []], ["0 hit", "22 hit"],
                     id="one alert until no detector finds its stream bad"),
        pytest.param([[HIT], [HIT, BELOW], [receding(BELOW)], [], []], ["0 hit", "3 hit"],
                     id="or only still remembers it"),
        pytest.param([[HIT], [HIT, BELOW], [receding(BELOW, 0.2)], [BELOW], []],
                     ["0 hit", "4 hit"], id="a good minute of a bad hour is no end"),
        pytest.param([[HIT], [HIT, ZERO], [ZERO], []],
                     ["0 hit", "1 zero_result", "2 hit", "3 zero_result"],
                     id="who heard of it hears its end"),
        pytest.param([[HIT, finding(dimension="tenant")]], ["0 hit"], id="a whole for its slices"),
        pytest.param([[finding("slow", "anomaly")], [finding("slow"), finding("latency")]],
                     ["0 slow"], id="slowness is one news"),
        pytest.param([[HIT], [HIT, finding(kind="slo", severity="critical")]],
                     ["0 hit", "1 hit"], id="a graver alert is heard"),
        pytest.param([[ERROR], [ERROR, finding("zero_result", severity="critical")]],
                     ["0 error", "1 zero_result"], id="also than its cause"),
        pytest.param([[ZERO, finding("hit", "canary", dimension="version")]],
                     ["0 zero_result", "0 hit"], id="a bad version is news in any incident"),
        pytest.param([[finding("hit", "canary", dimension="version"),
                       finding("uncited", "canary", dimension="version")]],
                     ["0 hit"], id="of what is bad in a version the nearest to the root"),
        pytest.param([[ZERO, finding("zero_result", severity="critical", dimension="tenant")]],
                     ["0 zero_result", "0 zero_result"],
                     id="a warning on the pipeline keeps no critical on a slice from being heard"),
        pytest.param([[finding("traffic", "no_data"), finding("latency")]], ["0 traffic"],
                     id="an outage explains everything"),
    ],
)  # fmt: skip
def test_causes_speak_for_symptoms(minutes, heard):
    assert [f"{at} {metric}" for at, _, metric, told in run(minutes) if told] == heard


CRITICAL = finding("zero_result", severity="critical")
LIMIT = finding("zero_result", "threshold")


@pytest.mark.parametrize(
    ("minutes", "heard"),
    [
        pytest.param([[ZERO], [CRITICAL], [ZERO], []],
                     ["0 firing warning", "1 escalated critical", "3 resolved critical"],
                     id="what gets graver is told at once, and stays grave"),
        pytest.param([[ZERO, HIT], [ZERO, replace(HIT, severity="critical")]],
                     ["0 firing warning", "1 notified critical"],
                     id="a symptom that gets graver than its cause is told"),
        pytest.param([[ERROR], [replace(ERROR, severity="critical"), CRITICAL]],
                     ["0 firing warning", "1 escalated critical"],
                     id="a cause that gets as grave speaks for its symptom"),
    ],
)  # fmt: skip
def test_severity_is_never_lost(minutes, heard):
    book, told = AlertBook(), []
    for at, findings in enumerate(minutes):
        book, events = step(book, findings, NOW + 60.0 * at, explain)
        told += [f"{at} {each.change} {each.alert.severity}" for each in events if each.notify]
    assert told == heard


def test_a_critical_is_heard_beside_a_threshold_in_both_outages():
    """80 % zero results twice: the warning of a quarter of an hour outlasts the first outage."""
    part = replace(CRITICAL, alert=replace_dimension(CRITICAL.alert, "channel", "chat"))
    outage, between = [LIMIT, part], [replace(LIMIT, window_s=900.0), receding(part)]
    begins = [LIMIT, replace(part, severity="warning")]  # of few queries, it is not yet grave
    whole = [begins, *[outage] * 4]
    minutes = [[LIMIT]] * 3 + whole + [between] * 10 + [[]] * 8 + whole
    book, told = AlertBook(), []
    for at, findings in enumerate(minutes):
        book, events = step(book, findings, NOW + 60.0 * at, explain)
        told += [each for each in events if each.notify]
        grave = [each for each in book.open if each.severity == "critical"]
        assert not any(each.inhibited_by for each in grave)
    criticals = [each.change for each in told if each.alert.severity == "critical"]
    assert criticals == ["notified", "resolved", "escalated"]


def replace_dimension(key, dimension, value):
    return key._replace(stream=key.stream._replace(dimension=dimension, value=value))


def silence(start, end):
    matchers = (Matcher("metric", "hit|slow", regex=True), Matcher("pipeline", "docs"))
    return Silence(id="s1", matchers=matchers, starts_at=NOW + start, ends_at=NOW + end)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        pytest.param("(a+)+$", "", id="linear in RE2, exponential elsewhere"),
        pytest.param("(?=a)a", "invalid perl operator", id="a look-ahead, which RE2 refuses"),
        pytest.param("(", "missing )", id="no expression"),
    ],
)
def test_expressions_of_silences_cost_linear_time(expression, problem):
    matcher = Matcher("pipeline", expression, regex=True)
    assert problem in matcher.problem()
    assert bool(matcher.problem()) == bool(problem)
    began = time.process_time()
    assert not matcher.matches({"pipeline": "a" * 100_000 + "!"})
    assert time.process_time() - began < 0.5


def test_a_silence_ends():
    suppressions = Suppressions(silences=(silence(-60.0, 120.0),))
    found = run([[HIT]] * 4 + [[]], suppressions=lambda _: suppressions)
    assert found == [
        (0, "firing", "hit", False),
        (2, "notified", "hit", True),
        (4, "resolved", "hit", True),
    ]


def test_what_nobody_heard_of_ends_unheard():
    suppressions = Suppressions(silences=(silence(-60.0, 600.0),))
    assert [told for *_, told in run([[HIT], []], suppressions=lambda _: suppressions)] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("labels", "matches"),
    [({"metric": "hit", "pipeline": "docs"}, True), ({"metric": "hit"}, False), ({}, False)],
)
def test_a_silence_matches_every_condition(labels, matches):
    assert silence(0.0, 1.0).matches(labels) is matches
    assert not Silence(id="all", matchers=(), starts_at=0.0, ends_at=1.0).matches(labels)


@pytest.mark.parametrize(
    ("day", "hour", "active"),
    [
        pytest.param(5, 23, True, id="Saturday night"),
        pytest.param(6, 1, True, id="past midnight"),
        pytest.param(6, 3, False, id="when it is over"),
        pytest.param(4, 23, False, id="not on Friday"),
    ],
)
def test_maintenance_comes_back(day, hour, active):
    window = Maintenance(name="reindex", weekdays=(5,), start_s=22 * 3600.0, duration_s=4 * 3600.0)
    monday = 1_739_750_400.0  # 17 February 2025
    for week in range(3):
        assert window.active(monday + (7 * week + day) * 86_400.0 + hour * 3_600.0) is active
