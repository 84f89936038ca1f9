"""Requests of kilobytes that would take gigabytes, under a limit of a gigabyte and a quarter."""

import gzip
import threading
from pathlib import Path

import pytest

from tests.support.daemons import Process
from tests.support.hostile import ATTACKS

pytestmark = pytest.mark.end_to_end

LIMIT_KB = 1_310_720  # of address space: what the libraries map takes half a gigabyte of it
PREFIX = ("sh", "-c", f'ulimit -v {LIMIT_KB}; exec "$@"', "sh")
MOST_BYTES = 100_000_000
MOST_CPU_S = 1.0
TICKS_S = 100


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "data"
    with Process(folder, "--judge.grounding.enabled", "false", prefix=PREFIX) as process:
        process.post("/v1/queries", b"{}")
        yield process
        assert process.terminate() == 0


def cpu_s(daemon: Process) -> float:
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


def peak_bytes(daemon: Process) -> int:
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("hostile", [pytest.param(each, id=each.name) for each in ATTACKS])
def test_a_hostile_request_costs_little_and_harms_nobody(daemon, hostile):
    body = gzip.compress(hostile.body())
    headers = {"content-type": hostile.media, "content-encoding": "gzip"}
    refused = daemon.total("ragmon_rejected_total")
    Path(f"/proc/{daemon.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    before, spent = daemon.rss_bytes(), cpu_s(daemon)
    answers = []
    attack = threading.Thread(
        target=lambda: answers.append(daemon.request("POST", hostile.path, body, headers))
    )
    attack.start()
    beside = daemon.post("/v1/queries", b"{}")
    attack.join(30)
    assert cpu_s(daemon) - spent < MOST_CPU_S
    assert peak_bytes(daemon) - before < MOST_BYTES
    assert beside.json["accepted"] == 1
    assert answers[0].status in (200, 413, 422)
    assert daemon.total("ragmon_rejected_total") - refused == (answers[0].status != 200)
    assert daemon.get("/livez").status == 200


def test_several_at_a_time_stay_below_the_limit(daemon):
    statuses = []

    def attack(hostile) -> None:
        body = gzip.compress(hostile.body())
        headers = {"content-type": hostile.media, "content-encoding": "gzip"}
        statuses.append(daemon.request("POST", hostile.path, body, headers).status)

    threads = [threading.Thread(target=attack, args=(each,)) for each in ATTACKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(statuses) == len(ATTACKS)
    assert set(statuses) <= {200, 413, 422, 503}
    assert daemon.post("/v1/queries", b"{}").status == 200
    assert daemon.rss_bytes() < LIMIT_KB << 10
