"""The queries shown with an alert: the worst since the change, of its own stream, redacted."""

import pytest

from ragmon.alerts import Alert
from ragmon.daemon.alerting.worst_queries import WorstQueries, normalized
from ragmon.detectors import AlertKey, Finding, StreamKey
from ragmon.records import Latency
from tests.support.examples import NOON, chunks, pipeline, record
from tests.support.rig import Rig, sent

PIPELINE = pipeline(slices=("tenant",))


def alert(metric: str, kind: str = "anomaly", dimension: str = "", value: str = "") -> Alert:
    key = AlertKey(kind, StreamKey("docs", metric, dimension, value))
    found = Finding(alert=key, status="bad", changed_at=NOON)
    return Alert(
        key=key, name="Any", state="firing", severity="warning", began_at=NOON + 600.0,
        fired_at=NOON + 600.0, bad_at=NOON + 600.0, finding=found,
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rig = Rig(tmp_path_factory.mktemp("worst"), PIPELINE)
    for at in range(20):
        rig.commit(
            sent(
                record(
                    f"q{at}",
                    NOON - 300.0 + 60.0 * at,
                    pipeline="docs" if at != 7 else "shop",
                    version="v2" if at % 3 == 0 else "v1",
                    tags={"tenant": "acme" if at % 2 else "globex"},
                    query=f"question {at} of jane@example.com",
                    chunks=chunks("a", "b") if at % 4 else [],
                    citations=["a"] if at != 9 else [],
                    latency_ms=Latency(total=100.0 * (at * 7 % 20)),
                    error="no model for jane@example.com" if at == 11 else None,
                )
            )
        )
    return rig.store


def shown(store, of: Alert, texts: str = "redact"):
    return WorstQueries(store.reader, PIPELINE, texts).find(of)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(alert("zero_result"), ["q12", "q8"], id="since the change, until it fired"),
        pytest.param(alert("latency"), ["q14", "q11", "q8", "q5", "q13"], id="the slowest first"),
        pytest.param(
            alert("zero_result", dimension="version", value="v2"), ["q12"], id="a version"
        ),
        pytest.param(alert("uncited", dimension="tenant", value="acme"), ["q9"], id="a slice"),
        pytest.param(alert("uncited", dimension="tenant", value="globex"), [], id="another slice"),
        pytest.param(alert("uncited", dimension="region", value="eu"), [], id="no such slice"),
        pytest.param(alert("traffic", kind="no_data"), [], id="silence has no queries"),
    ],
)
def test_which_queries(store, of, expected):
    assert [each.query_id for each in shown(store, of)] == expected


@pytest.mark.parametrize(
    ("texts", "query", "why"),
    [
        pytest.param("keep", "question 11 of jane@example.com", "no model for jane@example.com",
                     id="kept"),
        pytest.param("redact", "question 11 of [email]", "no model for [email]", id="redacted"),
        pytest.param("drop", "", "failed", id="dropped"),
    ],
)  # fmt: skip
def test_what_of_their_texts(store, texts, query, why):
    (found,) = shown(store, alert("error"), texts)
    assert (found.query, found.why) == (query, why)


def test_why_in_words(store):
    assert shown(store, alert("latency"))[0].why == "1,800 ms"
    assert shown(store, alert("attribution"))[0].why == "attribution 0 %"
    assert shown(store, alert("zero_result"))[0].why == "nothing was retrieved"


def test_each_of_them_asks_something_else(tmp_path):
    """A user's client asked one failing question a thousand times."""
    rig = Rig(tmp_path, PIPELINE)
    storm = ["How do I reset my key?", "how do i  reset my key", "HOW DO I RESET MY KEY?!"]
    others = [None, None, "", "Where is my bill?", "Where is my bill", "Why?"]
    asked = [*others, *(storm[at % 3] for at in range(1_000))]
    for first in range(0, len(asked), 100):
        rig.commit(
            sent(
                *(
                    record(f"q{at}", NOON + at / 10, pipeline="docs", query=asked[at], chunks=[])
                    for at in range(first, min(first + 100, len(asked)))
                )
            )
        )
    found = shown(rig.store, alert("zero_result"))
    # Of the storm the one that counts in the newest minute; the others are its repeats.
    assert [each.query_id for each in found] == ["q602", "q5", "q4", "q2", "q1"]


@pytest.mark.parametrize(
    ("texts", "query", "why"),
    [
        pytest.param("keep", "Where is jane@example.com?",
                     "asked 30 times in a minute by jane@example.com", id="kept"),
        pytest.param("redact", "Where is [email]?", "asked 30 times in a minute by [email]",
                     id="redacted"),
        pytest.param("drop", "", "asked 30 times in a minute", id="dropped"),
    ],
)  # fmt: skip
def test_a_retry_storm_shows_the_question_and_who_asks_it(tmp_path, texts, query, why):
    rig = Rig(tmp_path, PIPELINE)
    asked = [("Where is jane@example.com?", "jane@example.com")] * 30 + [("Why?", "bob")] * 2
    asked += [(f"question {at}", "bob") for at in range(20)]
    records = [
        record(f"q{at}", NOON + at / 10, pipeline="docs", query=question, user_id=user)
        for at, (question, user) in enumerate(asked)
    ]
    rig.commit(sent(*records))
    worst, other = shown(rig.store, alert("repeat", kind="repeats"), texts)
    assert (worst.query_id, worst.query, worst.why) == ("q29", query, why)
    assert other.query_id == "q31"


def test_the_name_of_who_repeats_a_question_is_bounded(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    twice = [
        record(f"q{at}", NOON + at, pipeline="docs", query="Why?", user_id=200 * "u")
        for at in range(2)
    ]
    rig.commit(sent(*twice))
    (worst,) = shown(rig.store, alert("repeat", kind="repeats"))
    assert worst.why == f"asked 2 times in a minute by {59 * 'u'}…"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("Why  me ?", "why me", True, id="case, blanks and its end"),
        pytest.param("Ｗｈｙ me", "why me", True, id="forms of one letter"),
        pytest.param("STRASSE", "straße", True, id="letters without an upper case"),
        pytest.param("C++?", "C?", False, id="another question"),
        pytest.param("?!", "", True, id="nothing but marks"),
    ],
)  # fmt: skip
def test_questions_that_are_one(one, other, same):
    assert (normalized(one) == normalized(other)) is same
