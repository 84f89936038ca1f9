"""Topics analysed on the schedule and exported."""

from ragmon.clock import SystemClock
from tests.daemon.topics.test_topics import batch
from tests.support.daemons import running
from tests.support.wait import eventually

MADE = "\nragmon_topics_timestamp_seconds "


def test_watched_topics_are_exported(tmp_path):
    with running(tmp_path) as site:
        assert site.post("/v1/queries", batch(SystemClock().now())).json["accepted"] == 440
        assert MADE not in site.get("/metrics").text
    with running(tmp_path, topics__watch=600.0, topics__max_cpu=1.0) as site:
        eventually(lambda: MADE in site.get("/metrics").text, "the topics are found", 120)
        lines = site.get("/metrics").text.splitlines()
        shares = [line for line in lines if line.startswith("ragmon_topic_queries_ratio{")]
        assert 4 <= len(shares) <= 10
        assert any("refund" in line for line in shares)
        for forget in site.daemon._context.engine.on_erased:
            forget()
        assert MADE not in site.get("/metrics").text
