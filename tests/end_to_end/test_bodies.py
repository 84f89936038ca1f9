"""Bodies in an object store, with the real daemon: kill -9, an outage, feedback, an erasure."""

import json
from collections.abc import Iterator

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import Process
from tests.support.object_store import KEY, SECRET, ObjectStore, moto
from tests.support.postgres import new_schema, shared_server
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

CLOCK = SystemClock()
OLD_S = 7_200.0  # bodies of queries of then move at once
KILLS = 4


@pytest.fixture
def server() -> Iterator[ObjectStore]:
    with moto() as store:
        store.make("bodies")
        yield store


class Site:
    """A daemon at level 1 whose bodies move at once."""

    def __init__(self, folder, server: ObjectStore) -> None:
        self.schema = new_schema()
        self.data = folder / "data"
        store = {
            "kind": "postgresql", "dsn": shared_server().url(), "schema_name": self.schema,
            "lease_s": 2,
            "bodies": {
                "kind": "s3", "bucket": "bodies", "endpoint": server.url, "hot_s": 0,
                "object_bytes": 16_384, "cache_bytes": 0, "read_timeout_s": 2,
                "access_key": KEY, "secret_key": SECRET,
            },
        }  # fmt: skip
        self.flags = ("--store", json.dumps(store), "--snapshot_every", "200ms")
        self.sent: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        self.process = Process(self.data, *self.flags)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)  # whichever runs by now

    def send(self, first: int, count: int, **fields: str) -> None:
        at = CLOCK.now() - OLD_S
        rows = [
            {"query_id": f"q{n}", "timestamp": at, "query": f"why is {n}", "answer": f"{n} " * 50}
            | fields
            for n in range(first, first + count)
        ]  # fmt: skip
        answer = self.process.post("/v1/queries", rows)
        assert answer.status == 200, answer.text
        self.sent |= {row["query_id"]: row["answer"] for row in rows}

    def read(self, query_id: str):
        return self.process.get(f"/v1/queries/{query_id}")

    def rows(self, sql: str):
        return shared_server().execute(sql.replace("@", self.schema))

    def number(self, sql: str) -> int:
        return self.rows(sql)[0][0]

    def all_moved(self) -> bool:
        waits = self.number("SELECT count(*) FROM @.blocks WHERE object IS NULL")
        left = self.number("SELECT count(*) FROM @.body_objects WHERE state = 'uploading'")
        return not waits and not left

    def check_all(self) -> None:
        assert self.process.total("ragmon_queries_total") == len(self.sent)
        for query_id in sorted(self.sent)[:: max(1, len(self.sent) // 25)]:
            answer = self.read(query_id)
            assert answer.status == 200, answer.text
            assert answer.json["record"]["answer"] == self.sent[query_id]


def test_kill_9_while_bodies_are_moved_loses_and_doubles_nothing(tmp_path, server):
    site = Site(tmp_path, server)
    with site:
        for round_ in range(KILLS):
            for part in range(5):
                site.send(1_000 * round_ + 100 * part, 100)
            CLOCK.sleep(0.15 * round_)  # in another place of the move each time
            site.process.kill()
            site.start()
        eventually(site.all_moved, "all bodies are moved", 90)
        site.check_all()
        known = site.rows("SELECT key FROM @.body_objects WHERE state = 'stored'")
        assert len(known) >= KILLS
        stored = {key for key in server.keys("bodies") if not key.endswith("owner.json")}
        assert {f"ragmon/{key}" for (key,) in known} <= stored
        left = site.number("SELECT count(*) FROM @.body_objects WHERE state <> 'stored'")
        assert len(stored) <= len(known) + left  # what a kill left is known, and will be deleted
        assert site.process.terminate() == 0


def test_an_outage_of_the_object_store_costs_reads_only_and_feedback_waits(tmp_path, server):
    site = Site(tmp_path, server)
    with site:
        site.send(0, 200)
        eventually(site.all_moved, "all bodies are moved", 60)
        server.stop()  # it hangs
        try:
            site.send(200, 50)
            assert site.read("q200").status == 200  # not moved yet
            answer = site.read("q5")
            assert answer.status == 503
            assert "the bodies of queries are not to be had" in answer.json["detail"]
            feedback = [{"query_id": name, "rating": "positive"} for name in ("q5", "q201")]
            assert site.process.post("/v1/feedback", feedback).json["accepted"] == 2
            again = site.process.post("/v1/queries", [{"query_id": "q6", "query": "again"}])
            assert again.json["duplicates"] == 1
            site.process.kill()
            site.start()  # without the object store
            site.send(250, 50)
        finally:
            server.go_on()
        eventually(site.all_moved, "all bodies are moved", 90)
        eventually(lambda: not site.number("SELECT count(*) FROM @.waiting"), "applied", 90)
        for name in ("q5", "q201"):
            # Reads leave the server alone for seconds after the last one that it did not answer.
            eventually(
                lambda name=name: site.read(name).json.get("feedback"), f"feedback of {name}", 30
            )
        site.check_all()
        shown = site.process.get("/metrics").text
        assert 'ragmon_bodies_requests_total{operation="put",outcome="ok"}' in shown
        assert site.process.terminate() == 0


def test_what_a_user_wrote_leaves_the_bucket(tmp_path, server):
    site = Site(tmp_path, server)
    with site:
        site.send(0, 60)
        site.send(60, 20, user_id="ann@example.com")
        eventually(site.all_moved, "all bodies are moved", 60)
        before = set(server.keys("bodies"))
        request = site.process.request("DELETE", "/v1/users/ann@example.com")
        assert request.status == 202, request.text
        name = request.json["request"]

        def state() -> str:
            return site.process.get(f"/v1/forgotten/{name}").json["state"]

        eventually(lambda: state() == "purging", "it waits for the objects to go", 60)
        site.rows("UPDATE @.body_objects SET since = since - interval '1 hour' RETURNING 1")

        def is_done() -> bool:
            site.rows("UPDATE @.body_objects SET since = since - interval '1 hour' RETURNING 1")
            return state() == "done"

        eventually(is_done, "it is done", 90)
        assert not {key for key in before & set(server.keys("bodies")) if "owner" not in key}
        assert site.read("q5").json["record"]["answer"] == site.sent["q5"]
        assert site.read("q61").status == 404
