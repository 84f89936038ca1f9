"""A clock that was days ahead: what a real daemon shows once it is right again."""

import pytest

from tests.faults import library
from tests.faults.nursery import Daemon
from tests.faults.rounds import Crashes
from tests.support import metrics
from tests.support.receiver import receiving
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end
AHEAD_S = 8 * 86_400.0
_RECOUNTED_S = 240.0  # a minute of a steady clock, on a machine that is shared


@pytest.fixture
def crashes(tmp_path):
    library.required()
    with receiving() as receiver, Crashes(tmp_path, receiver) as made:
        yield made


def send(site: Daemon, name: str, queries: int) -> None:
    batch = [{"query_id": f"{name}{number}", "pipeline": "shop"} for number in range(queries)]
    assert site.post("/v1/queries", batch).status == 200


def counted(site: Daemon) -> int:
    return site.get("/v1/report?window=1h").json["queries"]


def send_while_it_is_wrong(crashes: Crashes, site: Daemon) -> None:
    send(site, "before", 20)
    crashes.faults.step_clock(AHEAD_S)
    send(site, "ahead", 5)


def test_the_report_shows_the_present_again(crashes):
    with crashes.daemon() as site:
        send_while_it_is_wrong(crashes, site)
        crashes.faults.step_clock(-AHEAD_S)
        send(site, "after", 7)
        assert counted(site) < 27
        eventually(lambda: counted(site) == 27, "all but those of the future", _RECOUNTED_S)
        shown = site.get("/metrics").text
        assert metrics.total(shown, "ragmon_queries_total", pipeline="shop") == 32
        assert metrics.total(shown, "ragmon_windows_recounted_total") == 1
        assert metrics.total(shown, "ragmon_queries_ahead") == 5
        assert site.get("/v1/queries/ahead0").status == 200  # nothing is deleted
        assert site.terminate() == 0
    with crashes.daemon() as site:
        send(site, "later", 1)
        assert counted(site) == 28


def test_also_when_it_was_set_while_the_daemon_was_down(crashes):
    with crashes.daemon() as site:
        send_while_it_is_wrong(crashes, site)
        site.kill()
    crashes.faults.step_clock(-AHEAD_S)
    with crashes.daemon() as site:
        send(site, "after", 7)
        eventually(lambda: counted(site) == 27, "all but those of the future", _RECOUNTED_S)
