"""Notifications of a real daemon: into a real Alertmanager, and through kill -9 at any moment."""

import base64
import collections
import hashlib
import hmac
import json
import random
from datetime import datetime

import pytest
from msgspec.structs import replace

from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.notify.routing import Route, build_routes, notifications
from tests.support.alertmanager import alertmanager
from tests.support.alerts import alert, finding, notice, rich_alert, story
from tests.support.daemons import Process, running
from tests.support.examples import chunks, record
from tests.support.receiver import OK, Reply, receiving
from tests.support.stores import opened
from tests.support.vigil import Vigil
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw"
PATH = "/hook/Sup3rS3cr3tPath"


@pytest.fixture
def receiver():
    with receiving() as held:
        yield held


# ---- Alertmanager ---------------------------------------------------------------------------


def told(site, change, *alerts):
    """Transitions as the state machine would commit them."""
    now = SystemClock().now()
    delivery = site.daemon._delivery
    made = [notice(change, replace(each, fired_at=now - 60.0), now) for each in alerts]
    rows = notifications(made, delivery.routes)
    delivery._outbox.submit(lambda outbox: outbox.put(rows)).result(10)
    delivery.wake()


def bodies(receiver, status):
    """What Alertmanager sent of groups in this state, by pipeline."""
    sent = [post.json for post in list(receiver.accepted)]
    return {each["groupLabels"]["pipeline"]: each for each in sent if each["status"] == status}


def test_a_real_alertmanager_shows_groups_and_resolves(tmp_path, receiver):
    hit = rich_alert()
    slow = alert(finding("slow"), "RagmonSlow")
    shop = alert(finding(pipeline="shop"), "RagmonShopHitRate")
    with alertmanager(tmp_path, receiver.url) as manager:
        sinks = f"[{{kind: alertmanager, url: '{manager.url}'}}]"
        given = {"sinks": sinks, "external_url": "https://ragmon.example.org"}
        with running(tmp_path / "data", **given) as site:
            told(site, "opened", hit, slow, shop)
            shown = eventually(
                lambda: (found := manager.alerts()) and len(found) == 3 and found, "all are shown"
            )
            assert shown["RagmonHitRate"]["labels"] == notice(of=hit).labels
            assert shown["RagmonHitRate"]["generatorURL"].startswith(
                "https://ragmon.example.org/incidents/"
            )
            eventually(lambda: len(bodies(receiver, "firing")) == 2, "it notifies two groups")
            docs = bodies(receiver, "firing")["docs"]
            assert {each["labels"]["alertname"] for each in docs["alerts"]} == {
                "RagmonHitRate",
                "RagmonSlow",
            }

            told(site, "resolved", hit, slow)
            eventually(lambda: "docs" in bodies(receiver, "resolved"), "it notifies the end")
            over = bodies(receiver, "resolved")["docs"]["alerts"]
            [ended] = [each for each in over if each["labels"] == notice(of=hit).labels]
            assert ended["annotations"]["summary"].startswith("docs is worse since ")
            assert ended["annotations"]["runbook_url"]
            assert manager.alerts().keys() == {"RagmonShopHitRate"}

            told(site, "opened", hit)  # and it can come again
            eventually(lambda: "RagmonHitRate" in manager.alerts(), "it is shown again")
            assert site.total("ragmon_notifications_total", outcome="delivered") == 6
            assert site.total("ragmon_notifications_total", outcome="retried") == 0


def test_what_is_open_is_said_again_so_that_it_would_fade(tmp_path, receiver):
    with alertmanager(tmp_path, receiver.url) as manager:
        sinks = f"[{{kind: alertmanager, url: '{manager.url}'}}]"
        with running(tmp_path / "data", sinks=sinks) as site:
            site.daemon._delivery._workers[0]._repeat_at = 0.0
            site.daemon._delivery.repeat(lambda: [notice(of=rich_alert())])
            site.daemon._delivery.wake()
            shown = eventually(lambda: manager.alerts().get("RagmonHitRate"), "it is shown")
            ends = SystemClock().now() + 240.0
            assert abs(datetime.fromisoformat(shown["endsAt"]).timestamp() - ends) < 30.0


def queries(first: float, minutes: int, *, empty: bool = False):
    """Six a minute; one in fifty finds nothing, or all of them."""
    return [
        record(
            f"q{int(first)}-{at}",
            at=first + 10.0 * (at + 0.5),
            pipeline="docs",
            query=f"question {at}",
            chunks=[] if empty or at % 50 == 7 else chunks("a", "b"),
        )
        for at in range(6 * minutes)
    ]


def test_an_outage_goes_all_the_way_to_alertmanager_and_back(tmp_path, receiver):
    """Queries in; the alert, its evidence and its end out, as whoever is on call reads them."""
    clock = SystemClock()
    start = clock.now() // 60 * 60 - 25 * 60.0
    with alertmanager(tmp_path, receiver.url) as manager:
        sinks = [{"kind": "alertmanager", "url": manager.url}]
        vigil = Vigil(tmp_path / "data", start, sinks=sinks)
        routes = build_routes(Settings(sinks=sinks), clock, 8321)  # in the time of Alertmanager
        outbox = vigil.engine.thread.bind(vigil.engine.state.outbox())
        delivery = Delivery(outbox, routes, clock, counters=vigil.own)
        delivery.repeat(vigil.alerting.standing)
        vigil.alerting._delivery = delivery
        delivery.start()
        for hour in range(-27, 0):
            vigil.commit(queries(start + 3_600.0 * hour, 60))
            vigil.tick()
        for minute in range(45):
            vigil.commit(queries(start + 60.0 * minute, 1, empty=3 <= minute < 10))
            vigil.tick(60.0)
            if minute == 9:
                shown = eventually(lambda: manager.alerts().get("RagmonZeroResults"), "it shows")
                eventually(lambda: "docs" in bodies(receiver, "firing"), "somebody is told")
        eventually(lambda: "docs" in bodies(receiver, "resolved"), "it is told to be over")
        eventually(lambda: delivery.undelivered.length == 0, "all is written down")
        delivery.stop()
        vigil.end()
    assert shown["labels"]["pipeline"] == "docs"
    noted = shown["annotations"]
    assert noted["observed"].startswith("zero-result rate ")
    assert "What to try:\n1. Check that the index exists" in noted["description"]
    assert "nothing was retrieved): http" in noted["description"]
    assert noted["runbook_url"].endswith("/runbooks/RagmonZeroResults")
    [over] = bodies(receiver, "resolved")["docs"]["alerts"]
    assert over["annotations"]["over_since"]


# ---- kill -9 --------------------------------------------------------------------------------


def verified(post) -> bool:
    """As a receiver of Standard Webhooks verifies it."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode()
    digest = base64.b64encode(hmac.new(key, signed + post.body, hashlib.sha256).digest())
    return post.headers["webhook-signature"] == f"v1,{digest.decode()}"


def in_order(ids) -> dict[str, list[str]]:
    """The ids by alert as they were first accepted."""
    found = collections.defaultdict(list)
    for each in dict.fromkeys(ids):
        found[each.split("-")[0]].append(each)
    return found


def test_no_kill_loses_a_notification_or_changes_their_order(tmp_path, receiver):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    events = [each for number in range(30) for each in story(number, 3)]
    store = opened("sqlite", data_dir)
    store.state.outbox().put(notifications(events, [Route(name="hook", sink=None)]))
    store.close()
    (tmp_path / "secret").write_text(SECRET, encoding="utf-8")
    sinks = json.dumps([{
        "kind": "webhook", "name": "hook", "url": receiver.url + PATH, "give_up_after": "36500d",
        "secret_file": str(tmp_path / "secret"),
    }])  # fmt: skip
    rng = random.Random(4)
    receiver.answer = lambda post: Reply(503, body=post.path.encode()) if rng.random() < 0.3 else OK
    said = ""
    for kill in range(1, 4):
        with Process(data_dir, "--sinks", sinks) as site:
            wanted = 20 * kill
            eventually(lambda wanted=wanted: len(receiver.accepted) >= wanted, "some arrived", 30)
            site.kill()
            said += site.log.read_text(encoding="utf-8")
    with Process(data_dir, "--sinks", sinks) as site:
        eventually(
            lambda: (
                {each.headers["webhook-id"] for each in list(receiver.accepted)}
                == {each.id for each in events}
            ),
            "all of them arrived",
            60,
        )
        eventually(lambda: site.total("ragmon_notification_queue_length") == 0, "it is written")
        assert site.total("ragmon_notification_dead_letters") == 0
        assert site.terminate() == 0
        said += site.log.read_text(encoding="utf-8")
    ids = [post.headers["webhook-id"] for post in receiver.accepted]
    assert in_order(ids) == in_order(each.id for each in events)
    assert len(ids) < len(events) * 1.5
    assert [post for post in receiver.posts if not verified(post)] == []
    assert "notification_failed" in said
    for secret in (SECRET, PATH, "Sup3rS3cr3tPath"):
        assert secret not in said
