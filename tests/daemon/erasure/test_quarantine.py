"""Forgetting a user: entries in quarantine that mention her, or are about her queries, go."""

import json

import pytest

from ragmon.quarantine import AnswerContent, DamagedContent, LineContent, TraceContent, encode
from ragmon.sources.otlp.spans import Resource, pack
from ragmon.stores.quarantine import QuarantinedItem
from tests.daemon.erasure.test_requests import JANE, JOHN, forget, query
from tests.support.carve import carved
from tests.support.daemons import Process, running
from tests.support.otlp import as_json, span
from tests.support.poison import Poison
from tests.support.wait import eventually


def line(kind="queries", **fields):
    return LineContent(kind, json.dumps(fields).encode())


def trace(user, text="", service=""):
    attributes = {"user.id": user, "input.value": text}
    [row] = pack([span(1, attributes=attributes, resource=Resource(service=service))])
    return TraceContent([row.body])


def entries(site):
    return site.get("/v1/quarantine?limit=100").json["entries"]


def put(site, **contents):
    now = site.daemon._clock.now()
    items = [
        QuarantinedItem("decode", "invalid", now, name, "an error", encode(content))
        for name, content in contents.items()
    ]
    site.daemon._engine.thread.ask(lambda: site.daemon._engine.quarantine.put(items))


HERS = {
    "a query": line(query_id=7, user_id=JANE, query="jane-secret-question"),
    "an id in a text": line(query_id=7, query=f"I am {JANE}"),
    "feedback": line("feedback", query_id=f"{JOHN}-q-of-hers", rating=9, comment="jane-secret"),
    "a trace": trace(JANE, "jane-secret-question"),
    "a trace of somebody who wrote to her": trace(JOHN, f"dear {JANE}, jane-secret"),
    "no JSON": LineContent("queries", f"nonsense of {JANE} jane-secret".encode()),
    "an answer": AnswerContent(f"{JOHN}-q-of-hers", "grounding"),
    "damaged spans": DamagedContent(b"jane-secret, but who knows"),
}
OTHERS = {
    "a query of another": line(query_id=7, user_id=JOHN),
    "a name that begins alike": line(query_id=7, user_id=f"{JANE}5"),
    "a trace of another": trace(JOHN, "john-secret"),
    "feedback of another": line("feedback", query_id="unknown", rating=9),
}


def test_what_is_hers_goes_and_the_receipt_counts_it(tmp_path):
    data = tmp_path / "data"
    with running(data) as site:
        site.post("/v1/queries", [query(f"{JOHN}-q-of-hers", JANE)])
        put(site, **HERS, **OTHERS)
        dry = forget(site, f"/v1/users/{JANE}", dry_run="true")
        assert dry["removed"]["quarantine"] == len(HERS)
        assert len(entries(site)) == len(HERS) + len(OTHERS)
        receipt = forget(site, f"/v1/users/{JANE}")
        assert receipt["removed"]["quarantine"] == len(HERS)
        assert "quarantine" not in str(receipt["remaining"])  # it is searched
        assert sorted(entry["name"] for entry in entries(site)) == sorted(OTHERS)
        stored = carved(data)
        assert b"jane-secret" not in stored
        assert b"john-secret" in stored


def test_only_in_the_pipeline_that_was_asked_for(tmp_path):
    with running(tmp_path / "data") as site:
        put(
            site,
            here=line(query_id=7, user_id=JANE, pipeline="docs"),
            nowhere=line(query_id=7, user_id=JANE),
            elsewhere=line(query_id=7, user_id=JANE, pipeline="chat"),
            trace_here=trace(JANE, service="docs"),
            trace_elsewhere=trace(JANE, service="chat"),
        )
        receipt = forget(site, f"/v1/users/{JANE}", pipeline="docs")
        assert receipt["removed"]["quarantine"] == 3
        assert {entry["name"] for entry in entries(site)} == {"elsewhere", "trace_elsewhere"}


@pytest.mark.end_to_end
@pytest.mark.parametrize("kind", ["kill", "freeze"])
def test_an_incomplete_trace_that_harms_whoever_maps_it_is_erased_unmapped(tmp_path, kind):
    poison = Poison(tmp_path / "poison")
    flags = ("--judge.grounding.enabled=false", "--otlp.idle_timeout=1h")
    attributes = {"poison.kind": kind, "user.id": JANE, "input.value": "jane-secret"}
    part = span(1, trace_id=bytes(15) + b"\1", parent_id=b"\1" * 8, attributes=attributes)
    with Process(tmp_path / "data", *flags, environment=poison.environment) as site:
        answer = site.post("/v1/traces", as_json(part), content_type="application/json")
        assert answer.status == 200
        receipt = forget(site, f"/v1/users/{JANE}")
        assert receipt["removed"]["traces"] == 1
        eventually(lambda: site.get("/livez").status == 200, "it is alive")
        assert b"jane-secret" not in carved(tmp_path / "data")
        assert site.terminate() == 0
