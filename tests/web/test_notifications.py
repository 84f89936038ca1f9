"""What no receiver has, over HTTP."""

from ragmon.daemon.notify.routing import notifications
from tests.support.alerts import story
from tests.support.daemons import running
from tests.support.http import PROBLEM
from tests.support.receiver import Reply, receiving
from tests.support.wait import eventually


def test_what_was_given_up_is_told_with_its_reason(tmp_path):
    firing, resolved = story(1)
    gone = Reply(410, body=b"that channel is archived")
    with receiving() as receiver:
        receiver.answer = lambda _: gone
        sink = {"kind": "webhook", "name": "chat", "url": receiver.url}
        with running(tmp_path / "data", sinks=[sink]) as site:
            daemon = site.daemon
            assert site.get("/v1/notifications").json == {
                "waiting": 0, "oldest_at": None, "given_up": 0, "dead_letters": []
            }  # fmt: skip
            outbox, routes = daemon._engine.state.outbox(), daemon._delivery.routes
            rows = notifications([firing, resolved], routes)
            daemon._engine.thread.submit(lambda: outbox.put(rows)).result()
            daemon._delivery.wake()

            def both():
                found = site.get("/v1/notifications").json
                return found if found["given_up"] == 2 else None

            found = eventually(both)
            newest = site.get("/v1/notifications?limit=1").json["dead_letters"]
            refused = site.get("/v1/notifications?limit=none")
    assert found["waiting"] == 0
    last, first = found["dead_letters"]
    assert newest == [last]
    assert (first["id"], first["change"]) == (firing.id, "opened")
    assert (first["sink"], first["attempts"], first["incident"]) == ("chat", 1, firing.incident_id)
    assert "answered 410: that channel is archived" in first["reason"]
    assert first["labels"]["pipeline"] == "docs"
    assert first["at"] < first["given_up_at"]
    assert (refused.status, refused.headers["content-type"]) == (400, PROBLEM)
