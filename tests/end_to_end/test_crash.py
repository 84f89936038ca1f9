"""kill -9 in the middle of load: everything acknowledged is there, and there once."""

import pytest

from tests.support.daemons import Process
from tests.support.load import Load, expected
from tests.support.metrics import total
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

KILLS = 3
BETWEEN_KILLS = 1_000  # queries acknowledged before the next one
OFTEN = ("--snapshot_every", "200ms")  # so that kills meet snapshots as well


def counted(site) -> dict[str, int]:
    """The counters of all queries, after everything that a restart counts again."""
    page = site.page()
    # Every query has a latency of one stage, so that its count is a count of queries.
    return {name: int(total(page, name)) for name in expected([])}


def test_kill_9_loses_nothing_acknowledged_and_counts_nothing_twice(tmp_path):
    load = Load()
    for kill in range(1, KILLS + 1):
        site = Process(tmp_path / "data", *OFTEN)
        before = counted(site)["ragmon_queries_total"]
        known = len(load.acknowledged)
        assert known <= before <= known + len(load.doubtful)
        load.start(site)
        eventually(
            lambda at=kill: len(load.acknowledged) > at * BETWEEN_KILLS,
            "enough is acknowledged",
            30,
        )
        site.kill()
        load.wait()
        assert load.doubtful  # the kill met batches under way
    with Process(tmp_path / "data", *OFTEN) as site:
        load.start(site)  # what is in doubt is sent again: its ids make that harmless
        eventually(lambda: not load.doubtful, "nothing is in doubt")
        load.stop()
        assert counted(site) == expected(load.acknowledged)
        for query_id in sorted(load.acknowledged)[:: len(load.acknowledged) // 50]:
            found = site.get(f"/v1/queries/{query_id}")
            assert found.status == 200, query_id
            assert found.json["record"]["query_id"] == query_id
        assert site.terminate() == 0


def test_a_followed_file_is_read_once_across_kills(tmp_path):
    log = tmp_path / "rag.log"
    log.touch()
    source = f"[{{kind: jsonl, path: {log}, poll_s: 0.01}}]"
    written = 0

    def write(lines: int) -> None:
        nonlocal written
        line = f'{{"pipeline":"followed","query":"{"x" * 400}"}}\n'
        with log.open("a", encoding="utf-8") as file:
            file.write(line * lines)  # without ids: a line read twice would count twice
        written += lines

    def counted(site) -> int:
        return int(site.total("ragmon_queries_total", pipeline="followed"))

    for _ in range(KILLS):
        site = Process(tmp_path / "data", *OFTEN, "--sources", source)
        seen = counted(site)
        write(4_000)
        eventually(lambda site=site, seen=seen: counted(site) > seen, "it reads")
        site.kill()
    with Process(tmp_path / "data", *OFTEN, "--sources", source) as site:
        eventually(lambda: counted(site) >= written, "everything is read")
        assert counted(site) == written
