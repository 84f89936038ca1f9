"""The client library of applications against a real daemon."""

import pytest

from ragmon.client import Monitor, Options
from tests.support.daemons import Process
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

TOKENS = "[{name: app, token: send, scopes: [ingest]}, {name: ops, token: read, scopes: [read]}]"


def test_what_an_application_logs_arrives(tmp_path):
    with Process(tmp_path / "data", "--auth.tokens", TOKENS) as site:
        reader = site.with_token("read")
        with Monitor(site.url, token="send", pipeline="shop", version="v7") as monitor:
            documents = [{"id": "a", "score": 0.9, "text": "Shipping is free."}, {"id": "b"}]
            first = monitor.log_query(
                "Who pays?", "Nobody [1].", documents, latency_ms=412.0, citations=["a"]
            )
            with monitor.query("What now?") as q:
                with q.retrieval():
                    q.retrieved([])
                with q.generation():
                    q.answered("I do not know.")
            monitor.log_feedback(first, "negative", "too short")
            monitor.log_label(first, relevant_ids=["b"])
            for at in range(1_000):
                monitor.log_query(f"question {at}", "answer", documents, query_id=f"many-{at}")
            assert monitor.flush(20)
            stats = monitor.stats()
        assert reader.total("ragmon_queries_total", pipeline="shop", version="v7") == 1_002
        assert reader.total("ragmon_rejected_total", source="http") == 0
        assert stats.last_error == ""
        one = reader.get(f"/v1/queries/{first}").json
        assert one["record"]["query"] == "Who pays?"
        assert one["record"]["latency_ms"] == {"total": 412.0}
        assert one["record"]["chunks"][0]["text"] == "Shipping is free."
        assert one["feedback"]["comment"] == "too short"
        assert one["signals"]["attribution"] == 0.5
        newest = reader.get("/v1/queries?failing=zero_result").json["queries"]
        assert [each["record"]["query"] for each in newest] == ["What now?"]
        assert {"total", "retrieval", "generation"} <= newest[0]["record"]["latency_ms"].keys()


def test_an_outage_of_the_server_loses_nothing(tmp_path):
    data, spool = tmp_path / "data", tmp_path / "spool"
    site = Process(data)
    port = site.url.rsplit(":", 1)[1]
    with Monitor(site.url, pipeline="outage", spool_dir=spool, options=Options()) as monitor:
        for at in range(100):
            monitor.log_query(f"{at}", query_id=f"o-{at}")
        assert monitor.flush(20)
        site.kill()
        for at in range(100, 300):
            monitor.log_query(f"{at}", query_id=f"o-{at}")
        with Process(data, "--port", port) as site:
            eventually(
                lambda: site.total("ragmon_queries_total", pipeline="outage") == 300,
                "everything has arrived",
                30,
            )
            monitor.flush(20)
            assert site.total("ragmon_queries_total", pipeline="outage") == 300
