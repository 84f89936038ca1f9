"""Findings in, transitions out: nothing twice, nothing forgotten."""

import time

import pytest
from msgspec.structs import replace

from ragmon.alerts import Evidence
from ragmon.alerts.machine import AlertBook, Suppressions, Timing, step
from ragmon.alerts.notices import Acknowledgement, standing
from ragmon.alerts.silences import Maintenance, Matcher, Silence
from ragmon.detectors import AlertKey, Finding, StreamKey

NOW = 1_740_000_000.0


def finding(metric="hit", kind="anomaly", status="bad", severity="warning", dimension="", rule=""):
    stream = StreamKey("docs", metric, dimension, "acme" if dimension else "")
    return Finding(alert=AlertKey(kind, stream, rule), status=status, severity=severity)


def explain(found):
    return Evidence(sentence=found.alert.stream.metric)


def moves(minutes, *, timing=None, suppressions=None):
    """Findings by minute; yields what each minute brings, with a restart in every one."""
    book, ids = AlertBook(), []
    for at, findings in enumerate(minutes):
        moved = step(
            book,
            findings,
            NOW + 60.0 * at,
            explain,
            timing=timing or Timing(),
            suppressions=suppressions or Suppressions(),
        )
        book = AlertBook.load(moved.book.dump())
        ids += [each.id for each in (*moved.events, *moved.notices)]
        yield at, moved
    assert len(set(ids)) == len(ids)


def run(minutes, **given):
    """(minute, change, metric, whether it is named) of each transition."""
    return [
        (at, each.change, each.alert.key.stream.metric, each.is_named)
        for at, moved in moves(minutes, **given)
        for each in moved.events
    ]


def heard(minutes, **given):
    """Minute, change, severity and leading metric of each notification."""
    return [
        f"{at} {each.change} {each.severity} {each.alert.key.stream.metric}"
        for at, moved in moves(minutes, **given)
        for each in moved.notices
    ]


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
    ],
)
def test_transitions(minutes, expected):
    assert [f"{at} {change}{'!' * heard}" for at, change, _, heard in run(minutes)] == expected


ERROR, ZERO, HIT = finding("error"), finding("zero_result"), finding("hit")
FAITH, SLOW = finding("faithfulness"), finding("latency")
PART, BELOW = finding(dimension="tenant"), finding(kind="regression")
CRITICAL = finding("zero_result", severity="critical")


def canary(metric):
    return finding(metric, "canary", severity="critical", dimension="version")


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param([[ZERO, HIT, FAITH], []],
                     ["0 opened warning zero_result", "1 resolved warning zero_result"],
                     id="one notification when it opens, and one when it ends"),
        pytest.param([[ZERO], [ZERO, HIT], [HIT], [HIT], []],
                     ["0 opened warning zero_result", "4 resolved warning zero_result"],
                     id="a symptom is no news, and it ends with the last of them"),
        pytest.param([[HIT], [HIT, ZERO], [ZERO], []],
                     ["0 opened warning hit", "3 resolved warning zero_result"],
                     id="nothing is called resolved while a part of it fires"),
        pytest.param([[HIT], [HIT, ZERO], *[[HIT, ZERO]] * 30, []],
                     ["0 opened warning hit", "15 grew warning hit",
                      "32 resolved warning zero_result"],
                     id="a cause that comes after its symptom is news, a quarter of an hour later"),
        pytest.param([[HIT], [HIT, ZERO], *[[HIT]] * 30, []],
                     ["0 opened warning hit", "32 resolved warning zero_result"],
                     id="unless it is over by then"),
        pytest.param([[HIT, PART], *[[PART]] * 40, []],
                     ["0 opened warning hit", "41 resolved warning hit"],
                     id="what is left of it when its cause is over is no news"),
        pytest.param([[ZERO], [], [HIT]],
                     ["0 opened warning zero_result", "1 resolved warning zero_result",
                      "2 opened warning hit"],
                     id="what comes after its end is another"),
        pytest.param([[HIT, BELOW], [BELOW], [HIT, BELOW], *[[HIT, BELOW]] * 30, []],
                     ["0 opened warning hit", "33 resolved warning hit"],
                     id="what comes back soon is no news"),
        pytest.param([[HIT, BELOW], *[[BELOW]] * 20, [HIT, BELOW], []],
                     ["0 opened warning hit", "22 resolved warning hit"],
                     id="nor what another alert on the same explains"),
        pytest.param([[ZERO], [CRITICAL], [ZERO], []],
                     ["0 opened warning zero_result", "1 escalated critical zero_result",
                      "3 resolved critical zero_result"],
                     id="graver is told at once, and it stays that grave"),
        pytest.param([[ZERO, HIT], [ZERO, replace(HIT, severity="critical")]],
                     ["0 opened warning zero_result", "1 escalated critical hit"],
                     id="also a symptom that gets graver than its cause"),
        pytest.param([[ERROR], [ERROR, CRITICAL]],
                     ["0 opened warning error", "1 escalated critical zero_result"],
                     id="or begins graver"),
        pytest.param([[ZERO, finding("zero_result", severity="critical", dimension="tenant")]],
                     ["0 opened critical zero_result"],
                     id="a warning on the pipeline mutes no critical on a slice"),
        pytest.param([[canary("hit"), canary("uncited"), canary("latency")], []],
                     ["0 opened critical latency", "1 resolved critical latency"],
                     id="a bad version is one incident, whatever is worse in it"),
        pytest.param([[canary("latency")], *[[canary("latency"), canary("hit")]] * 20],
                     ["0 opened critical latency", "15 grew critical latency"],
                     id="that grows"),
        pytest.param([[HIT, SLOW], []],
                     ["0 opened warning hit", "0 opened warning latency",
                      "1 resolved warning hit", "1 resolved warning latency"],
                     id="two causes at once are two"),
        pytest.param([[finding("slow")], [finding("slow"), SLOW]], ["0 opened warning slow"],
                     id="slowness is one news"),
        pytest.param([[finding("traffic", "no_data"), SLOW]], ["0 opened warning traffic"],
                     id="an outage explains everything"),
        pytest.param([BAD] * 242, ["0 opened warning hit", "240 renotified warning hit"],
                     id="a reminder after four hours"),
        pytest.param([BAD, UNKNOWN, UNKNOWN, []],
                     ["0 opened warning hit", "3 resolved warning hit"],
                     id="without data it goes on"),
    ],
)  # fmt: skip
def test_people_are_notified_of_incidents(minutes, expected):
    assert sorted(heard(minutes)) == sorted(expected)


def test_receivers_know_an_incident_by_the_same_labels_until_it_gets_graver():
    minutes = [[HIT], [HIT, ZERO], *[[HIT, ZERO]] * 20, [HIT, CRITICAL], []]
    notices = [each for _, moved in moves(minutes) for each in moved.notices]
    assert [each.change for each in notices] == ["opened", "grew", "escalated", "resolved"]
    first, grown, graver, last = notices
    assert first.labels == grown.labels == graver.former_labels
    assert first.labels["alertname"] == "RagmonHitRate"
    assert first.labels["incident_id"] == first.incident_id
    assert graver.labels == last.labels
    assert (graver.labels["alertname"], graver.severity) == ("RagmonZeroResults", "critical")
    assert not first.former_labels
    assert not last.former_labels
    assert len({each.incident_id for each in notices}) == 1
    assert last.ended_at == last.at


def test_one_alert_leads_and_another_takes_its_place():
    leading = [
        [alert.key.stream.metric for alert in moved.book.open if alert.leads]
        for _, moved in moves([[ZERO, HIT], [HIT], []])
    ]
    assert leading == [["zero_result"], ["hit"], []]


def test_a_critical_is_heard_beside_a_threshold_in_both_outages():
    """80 % zero results twice: the warning of a quarter of an hour outlasts the first outage."""
    part = replace(CRITICAL, alert=replace_dimension(CRITICAL.alert, "channel", "chat"))
    limit = finding("zero_result", "threshold", rule="0.3/900s")
    begins = [limit, replace(part, severity="warning")]  # of few queries, it is not yet grave
    whole = [begins, *[[limit, part]] * 4]
    minutes = [[limit]] * 3 + whole + [[limit]] * 20 + whole + [[]] * 8
    criticals = [each for each in heard(minutes) if "critical" in each]
    assert [each.split(" ", 1)[1] for each in criticals] == [
        "escalated critical zero_result", "resolved critical zero_result",
    ]  # fmt: skip
    for _, moved in moves(minutes):
        grave = [each for each in moved.book.open if each.severity == "critical"]
        assert not any(each.inhibited_by for each in grave)


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
    minutes = [[HIT]] * 4 + [[]]
    assert run(minutes, suppressions=suppressions) == [
        (0, "firing", "hit", False),
        (2, "notified", "hit", True),
        (4, "resolved", "hit", True),
    ]
    told = heard(minutes, suppressions=suppressions)
    assert told == ["2 opened warning hit", "4 resolved warning hit"]


def test_of_a_silenced_cause_the_symptom_is_heard():
    quiet = Silence(id="s", matchers=(Matcher("metric", "error"),), starts_at=NOW, ends_at=2 * NOW)
    told = heard([[ERROR, ZERO], []], suppressions=Suppressions(silences=(quiet,)))
    assert told == ["0 opened warning zero_result", "1 resolved warning zero_result"]


def test_who_heard_of_it_hears_its_end_although_it_is_silenced_meanwhile():
    suppressions = Suppressions(silences=(silence(60.0, 600.0),))
    told = heard([[HIT], [HIT], []], suppressions=suppressions)
    assert told == ["0 opened warning hit", "2 resolved warning hit"]


def test_what_nobody_heard_of_ends_unheard():
    suppressions = Suppressions(silences=(silence(-60.0, 600.0),))
    assert heard([[HIT], []], suppressions=suppressions) == []
    assert [named for *_, named in run([[HIT], []], suppressions=suppressions)] == [False, False]


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


def test_reminders_stop_while_somebody_works_on_it_unless_it_becomes_graver():
    word = Acknowledgement(at=0.0, by="ann", note="we roll back")
    book, changes = AlertBook(), []
    grave = replace(HIT, severity="critical")
    for minute in range(700):
        now = NOW + 60.0 * minute
        bad = [HIT] if minute < 500 else [grave]
        moved = step(book, bad, now, lambda _finding: Evidence(sentence="bad"))
        book = moved.book
        if minute == 5:
            book, notice = book.acknowledged(book.incidents[0].id, word, now)
            assert (notice.change, notice.acknowledged) == ("acknowledged", word)
        changes += [(minute, one.change, one.acknowledged) for one in moved.notices]
    assert changes == [(0, "opened", None), (500, "escalated", None)]
    reminded = [step(book, [grave], NOW + 60.0 * 740, lambda _finding: Evidence(sentence="bad"))]
    assert [one.change for one in reminded[0].notices] == ["renotified"]


def test_an_acknowledgement_is_on_every_notice_until_it_is_taken_back():
    word = Acknowledgement(at=0.0, by="ann")
    book = step(AlertBook(), [HIT], NOW, lambda _finding: Evidence(sentence="bad")).book
    name = book.incidents[0].id
    book, _ = book.acknowledged(name, word, NOW + 1.0)
    book = AlertBook.load(book.dump())
    assert [one.acknowledged for one in standing(book.incidents, book.open, (), NOW)] == [word]
    ended = step(book, [], NOW + 60.0, lambda _finding: Evidence(sentence="bad"))
    assert [(one.change, one.acknowledged) for one in ended.notices] == [("resolved", word)]
    back, notice = book.acknowledged(name, None, NOW + 2.0)
    assert (notice.change, notice.acknowledged) == ("unacknowledged", None)
    reminded = step(back, [HIT], NOW + 4 * 3_600.0, lambda _finding: Evidence(sentence="bad"))
    assert [one.change for one in reminded.notices] == ["renotified"]
    with pytest.raises(KeyError):
        ended.book.acknowledged(name, word, NOW)
