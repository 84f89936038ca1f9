"""Answers of the HTTP API, member by member and in their order: golden/api_*.json."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ragmon.alerts import event
from ragmon.alerts.message import Links
from ragmon.daemon.alerting.api import AlertApi
from ragmon.daemon.baselines import BaselineService, LiveBaselines, Minutes
from ragmon.daemon.monitor import LiveMonitor
from ragmon.loops import Supervisor
from ragmon.records import Feedback, Label, Latency, Position, Tokens, Verdict
from ragmon.stores.protocols import Notification, Settled, Turn
from ragmon.web.alerts import AlertSection
from ragmon.web.api import Api
from ragmon.web.auth import Authorizer
from ragmon.web.baselines import BaselineSection
from tests.support import golden
from tests.support.alerts import notice, rich_alert
from tests.support.examples import NOON, chunks, record
from tests.support.limits import body_limits
from tests.support.vigil import Vigil

LIMITS = body_limits()
RUN = {
    "schema": "ragmon/evaluation/1",
    "name": "nightly",
    "created_at": NOON,
    "metrics": [{"name": "hit@5", "mean": 0.8, "samples": 2}],
    "cases": [{"case_id": "a"}, {"case_id": "b"}],
}


class Site:
    """The API over a real store, asked without a socket so that a manual clock drives it."""

    def __init__(self, vigil: Vigil) -> None:
        engine, clock = vigil.engine, vigil.clock
        alerts = AlertApi(
            vigil.alerting, engine, clock, Links("http://ragmon/", "http://runbooks/")
        )
        monitor = LiveMonitor(
            engine, vigil.settings, vigil.own, clock, alerts.open, supervisor=Supervisor()
        )
        monitor.begin()
        detection = vigil.alerting.detection
        service = BaselineService(
            engine.state.baselines(),
            lambda: Minutes(detection.log, detection.streams),
            detection.use_baseline,
        )
        baselines = LiveBaselines(engine.thread.bind(service), lambda: detection.baseline, clock)
        api = Api(
            monitor,
            lambda _reason: None,
            Authorizer((), clock),
            limits=LIMITS,
            more=[AlertSection(alerts, LIMITS), BaselineSection(baselines, LIMITS)],
        )
        self._application = api.application()

    def ask(self, path: str, method: str = "GET", content: Any = None) -> bytes:
        """The body of one answer."""
        path, _, query = path.partition("?")
        body = b"" if content is None else msgspec.json.encode(content)
        sent: list[dict[str, Any]] = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message):
            sent.append(message)

        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "headers": [], "root_path": "",
        }  # fmt: skip
        asyncio.run(self._application(scope, receive, keep))
        return b"".join(message.get("body", b"") for message in sent)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    vigil = Vigil(tmp_path_factory.mktemp("wire"), NOON, slices=["tenant"])
    vigil.commit(*traffic())
    firing = rich_alert(incident_id="f00d")
    assert firing.evidence is not None
    words = {"sentence": "The hit rate fell.", "detail": "measured on 412 queries"}
    firing = replace(firing, evidence=replace(firing.evidence, **words))
    over = replace(firing, state="resolved", ended_at=NOON - 60)
    events = [event("firing", firing, NOON - 120), event("resolved", over, NOON - 60)]
    notices = [notice("opened", firing, NOON - 120), notice("resolved", firing, NOON - 60)]
    turn = Turn(
        state=b"", buckets=(), oldest=(0, 0), book=b"", catching_up=False,
        positions={0: Position()},
        events=events, notices=notices,
    )  # fmt: skip
    state_store, call = vigil.engine.state, vigil.engine.thread.submit
    call(lambda: state_store.alert_log().save(turn)).result()
    body = msgspec.msgpack.encode(notices[0])
    outbox = state_store.outbox()
    waiting = [
        Notification("chat", notices[0].id, "f00d", NOON - 120, body),
        Notification("pager", notices[0].id, "f00d", NOON - 120, body),
    ]
    call(lambda: outbox.put(waiting)).result()
    (lost,) = call(lambda: outbox.due("chat", NOON, 5)).result().rows
    call(lambda: outbox.settle([Settled(lost.number, "dead", NOON - 30, "archived")])).result()
    yield Site(vigil)
    vigil.end()


def traffic():
    """Queries of two pipelines, one of them with everything that a record can hold."""
    full = record(
        "full", at=NOON - 90, pipeline="docs", version="v1", tags={"tenant": "acme"},
        query="When?", answer="At noon [a].", chunks=chunks("a", "b", scores=(0.9, 0.4)),
        citations=["a"], latency_ms=Latency(900.0, 200.0, 700.0), feedback=1.0,
        relevant_ids=["a"], grades={"a": 2.0}, model="tiny", tokens=Tokens(100, 20),
        cost_usd=0.001, session_id="s", user_id="u", trace_id="t", span_id="p",
        environment="prod", retrieval_query="when",
    )  # fmt: skip
    some = [
        record(f"d{at}", at=NOON - 80 + at, pipeline="docs", version="v2", chunks=chunks("a"))
        for at in range(12)
    ]
    other = [
        record("empty", at=NOON - 50, pipeline="shop", chunks=[]),
        record("failed", at=NOON - 40, pipeline="shop", error="timeout"),
    ]
    changes = [
        Feedback(query_id="d0", rating=-1.0, comment="wrong", timestamp=NOON - 20),
        Label(query_id="full", relevant_ids=["b"], faithful=1.0, timestamp=NOON - 20),
    ]
    for at in range(12):
        judged = {"query_id": f"d{at}", "timestamp": NOON - 15}
        changes.append(Verdict(judge="grounding", score=0.2 if at % 3 else 0.9, **judged))
        changes.append(Label(faithful=float(at % 3 == 0), **judged))
    return [full, *some, *other], changes


def rounded(value: Any) -> Any:
    """The same with nine digits, which is what every platform agrees on."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: rounded(member) for name, member in value.items()}
    return [rounded(member) for member in value] if isinstance(value, list) else value


def same(name: str, body: bytes, **masked: str) -> None:
    """Compare an answer with golden/api_<name>.json; ids drawn at random are masked."""
    content = rounded(msgspec.json.decode(body))
    content |= masked
    text = msgspec.json.format(msgspec.json.encode(content), indent=1).decode()
    golden.same(f"api_{name}.json", text + "\n")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("report", "/v1/report?window=1h"),
        ("report_of_one_pipeline", "/v1/report?window=1h&pipeline=shop"),
        ("report_of_nothing", "/v1/report?window=5m&pipeline=nobody"),
        ("queries", "/v1/queries?limit=2"),
        ("query", "/v1/queries/full"),
        ("query_judged", "/v1/queries/d0"),
        ("alerts", "/v1/alerts"),
        ("alert", f"/v1/alerts/{rich_alert().episode}"),
        ("notifications", "/v1/notifications"),
        ("problem", "/v1/alerts?state=wrong"),
    ],
)
def test_answers(site, name, path):
    same(name, site.ask(path))


def test_silences_from_made_to_deleted(site):
    asked = {
        "matchers": [{"name": "pipeline", "value": "docs"}],
        "duration": "2h",
        "created_by": "ops",
        "comment": "reindexing",
    }
    made = site.ask("/v1/silences", "POST", asked)
    same("silence", made, id="(drawn)")
    listed = msgspec.json.decode(site.ask("/v1/silences"))
    assert listed == {"silences": [msgspec.json.decode(made)]}
    name = listed["silences"][0]["id"]
    assert site.ask(f"/v1/silences/{name}", "DELETE") == b'{"deleted":"%s"}' % name.encode()


def test_baselines_from_kept_to_deleted(site):
    same("baseline_kept", site.ask("/v1/baselines/b", "PUT", {"run": RUN, "by": "ci"}))
    same("baseline_promoted", site.ask("/v1/baselines/b/promote", "POST"))
    same("baseline", site.ask("/v1/baselines/b"))
    same("baselines", site.ask("/v1/baselines"))
    assert site.ask("/v1/baselines/b", "DELETE") == b'{"deleted":1}'
