"""10,000 notifications through a receiver that fails, goes down and is killed; so is ragmon."""

import collections
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import daemon

from ragmon.alerts import Alert, Evidence
from ragmon.alerts.incidents import IncidentCause
from ragmon.alerts.notices import IncidentChange, IncidentNotice
from ragmon.daemon.notify.routing import Route, notifications
from ragmon.detectors import AlertKey, Finding, StreamKey
from ragmon.stores.sqlite.store import SqliteStore

ALERTS = 1_000
CHANGES = 10
KILLS_AT = (0.2, 0.4)  # of ragmon, by the share delivered
DOWN_AT = 0.6
DOWN_S = 3.0
TIMEOUT_S = 90.0

# A process of its own, so that it can be killed: accepted ids go to a file before the answer.
_RECEIVER = """
import random, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

rng = random.Random(int(sys.argv[3]))
accepted = open(sys.argv[2], "a", buffering=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self):
        length = int(self.headers["content-length"])
        if len(self.rfile.read(length)) < length:  # the sender was killed in between
            self.close_connection = True
            return
        fails = rng.random() < 0.3
        if not fails:
            accepted.write(self.headers["webhook-id"] + "\\n")
        self.send_response(503 if fails else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    events = _notices()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = _free_port()
        _fill(folder, events)
        began = time.perf_counter()
        attempts = _deliver(folder, port, len(events))
        took = time.perf_counter() - began
        got = (folder / "accepted").read_text().split()
    lost = len({each.id for each in events} - set(got))
    astray = sum(
        ids != expected
        for ids, expected in zip(
            _by_alert(got).values(), _by_alert(each.id for each in events).values(), strict=False
        )
    )
    return [
        (
            f"{len(events):,} transitions of {ALERTS:,} alerts, 30 % refused",
            f"{len(set(got)):,} delivered, {lost} lost, {astray} alerts out of order",
            "0 and 0",
        ),
        (
            f"ragmon killed {len(KILLS_AT)} times, the receiver killed for {DOWN_S:g} s",
            f"{len(got) - len(set(got))} delivered twice",
            "few",
        ),
        ("wall clock", f"{took:.0f} s, {attempts / took:,.0f} attempts/s", ""),
    ]


def _deliver(folder: Path, port: int, count: int) -> float:
    """Until everything is delivered, with everything that goes wrong; returns the attempts."""
    sinks = [{"kind": "webhook", "name": "hook", "url": f"http://127.0.0.1:{port}/"}]
    flags = ("--sinks", json.dumps(sinks))
    receiver = _receiver(folder, port, 0)
    attempts = 0.0
    try:
        for share in KILLS_AT:
            with daemon(folder, *flags) as running:
                _wait(folder, share * count)
                attempts += _attempts(running)
                running.kill()
        with daemon(folder, *flags) as running:
            _wait(folder, DOWN_AT * count)
            _kill(receiver)
            time.sleep(DOWN_S)
            receiver = _receiver(folder, port, 1)
            _wait(folder, count)
            attempts += _attempts(running)
    finally:
        _kill(receiver)
    return attempts


def _notices() -> list[IncidentNotice]:
    """Each incident opens, is told again, and ends, now."""
    now = time.time() - 60.0 * CHANGES
    found = []
    for at in range(CHANGES):
        for number in range(ALERTS):
            key = AlertKey("anomaly", StreamKey("docs", "hit", "tenant", f"t{number}"))
            last = at == CHANGES - 1
            alert = Alert(
                key=key,
                name="RagmonHitRate",
                state="resolved" if last else "firing",
                severity="warning",
                began_at=now,
                fired_at=now,
                bad_at=now,
                ended_at=now + 60.0 * at if last else None,
                finding=Finding(alert=key, status="bad"),
                evidence=Evidence(sentence="hit rate of docs fell to 88 % (expected 93 %)"),
            )
            change: IncidentChange = "opened"
            if at:
                change = "resolved" if last else "renotified"
            found.append(
                IncidentNotice(
                    id=f"{alert.fingerprint}-{change}-{at}",
                    at=now + 60.0 * at,
                    change=change,
                    incident_id=alert.fingerprint,
                    severity="warning",
                    headline="docs is worse since 21:02 UTC: hit rate 88 % (93 %)",
                    cause=IncidentCause("docs"),
                    symptoms=(),
                    alerts=1,
                    pipelines=("docs",),
                    labels=alert.labels,
                    opened_at=now,
                    ended_at=alert.ended_at,
                    alert=alert,
                )
            )
    return found


def _fill(folder: Path, notices: list[IncidentNotice]) -> None:
    store = SqliteStore(folder)
    store.state.outbox().put(notifications(notices, [Route(name="hook", sink=None)]))
    store.close()


def _receiver(folder: Path, port: int, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _RECEIVER, str(port), str(folder / "accepted"), str(seed)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _wait(folder: Path, wanted: float) -> None:
    """Until so many different notifications were accepted."""
    until = time.monotonic() + TIMEOUT_S
    accepted = folder / "accepted"
    while time.monotonic() < until:
        if accepted.exists() and len(set(accepted.read_text().split())) >= wanted:
            return
        time.sleep(0.1)


def _attempts(running) -> float:
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in running.get("/metrics").decode().splitlines()
        if line.startswith("ragmon_notifications_total{")
    )


def _by_alert(ids) -> dict[str, list[str]]:
    """Ids by alert, in the order in which each was first there."""
    found = collections.defaultdict(list)
    for each in dict.fromkeys(ids):
        found[each.partition("-")[0]].append(each)
    return dict(sorted(found.items()))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:64} {row[1]:60} {row[2]}")
