"""Requests of kilobytes that would take gigabytes: CPU, memory and /livez beside each of them.

Compressed bodies that unpack to 16 MB, as an attacker would send them, to a daemon with the default
limits. Another client sends queries meanwhile.
"""

import gzip
import json
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from harness import Daemon, daemon

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.hostile import ATTACKS, NDJSON, QUERIES, Attack


class Seen(NamedTuple):
    """One attack, as it was seen from outside."""

    status: int
    cpu_s: float
    grown_mb: float
    livez_s: float  # the longest
    floor_s: float  # the longest without an attack
    counted: float  # refusals
    kept: int  # queries of another client


def attack(running: Daemon, hostile: Attack) -> Seen:
    """Send it, and watch."""
    body = gzip.compress(hostile.body(), 6)
    headers = {"Content-Type": hostile.media, "Content-Encoding": "gzip"}
    floor_s = _Watch(running).after(0.5)
    Path(f"/proc/{running.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    before_mb, before_s = running.memory_mb(), running.cpu_s
    refused = _refused(running)
    watch = _Watch(running)
    status = _post(running.url + hostile.path, body, headers)
    grown_mb = running.memory_mb("VmHWM") - before_mb
    cpu_s = running.cpu_s - before_s
    livez_s = watch.after(0.0)
    counted = _refused(running) - refused
    return Seen(status, cpu_s, grown_mb, livez_s, floor_s, counted, watch.kept)


class _Watch:
    """Asks for /livez, and sends queries, until it ends."""

    def __init__(self, running: Daemon) -> None:
        self.kept = 0
        self._running = running
        self._ended = threading.Event()
        self._longest_s = 0.0
        self._threads = [threading.Thread(target=each) for each in (self._live, self._send)]
        for thread in self._threads:
            thread.start()

    def after(self, seconds: float) -> float:
        """End after a while; the longest answer of /livez."""
        self._ended.wait(seconds)
        self._ended.set()
        for thread in self._threads:
            thread.join()
        return self._longest_s

    def _live(self) -> None:
        while True:
            started = time.perf_counter()
            self._running.get("/livez")
            self._longest_s = max(self._longest_s, time.perf_counter() - started)
            if self._ended.wait(0.01):
                return

    def _send(self) -> None:
        while True:
            self.kept += _post(self._running.url + QUERIES, b'{"query":"beside"}', {}) == 200
            if self._ended.wait(0.05):
                return


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


def _refused(running: Daemon) -> float:
    """Refusals of every reason."""
    lines = running.get("/metrics").decode().splitlines()
    name = "ragmon_rejected_total{"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def spread(running: Daemon) -> tuple[str, str, str]:
    """The longest wait of another beside queries that are spread over seven days."""
    now, count = time.time(), 10_000
    lines = (
        {"query_id": f"spread-{at}", "timestamp": now - 600_000 * (at * 7_919 % count) / count}
        for at in range(count)
    )
    body = "\n".join(map(json.dumps, lines)).encode()
    longest_s, ended = [0.0], threading.Event()

    def wait() -> None:
        while not ended.is_set():
            started = time.perf_counter()
            _post(running.url + QUERIES, b"{}", {})
            longest_s[0] = max(longest_s[0], time.perf_counter() - started)

    beside = threading.Thread(target=wait)
    beside.start()
    before = running.cpu_s
    status = _post(running.url + QUERIES, body, {"Content-Type": NDJSON})
    ended.set()
    beside.join()
    measured = f"{status}, {running.cpu_s - before:.1f} s CPU, another waits {longest_s[0]:.1f} s"
    return f"{count:,} queries spread over seven days", measured, ""


# What a review of 15303ec measured; with more megabytes some of these did not end.
BEFORE = (
    "lines {} of 4 MB: 3,753 MB, 122 s; lines 1 of 16 MB: 1,904 MB, 87 s; array of 1 of 4 MB: "
    "782 MB, 21 s; empty spans of 16 MB: 1,518 MB, 10 s; long field name of 16 MB: 788 MB, 5 s"
)


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder)) as running:
        _post(running.url + QUERIES, b"{}", {})
        for hostile in ATTACKS:
            seen = attack(running, hostile)
            measured = (
                f"{seen.status}, {seen.cpu_s:.2f} s CPU, +{seen.grown_mb:.0f} MB, "
                f"/livez {1e3 * seen.livez_s:.0f} ms (without {1e3 * seen.floor_s:.0f} ms)"
            )
            rows.append((hostile.name, measured, "< 1 s, < 100 MB, < 100 ms"))
        rows.append(spread(running))
        rows.append(("memory at most", f"{running.memory_mb():.0f} MB after all", ""))
    return [*rows, ("before, by the review of 15303ec", BEFORE, "")]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:40} {row[1]:80} {row[2]}")
