"""Reads and connections that are meant to take memory: what the daemon needs beside its rest."""

import gzip
import json
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from harness import Daemon, daemon

BLOCKS, PER_BLOCK = 300, 1_000
TEXT = "lorem ipsum dolor sit amet " * 110  # 3 kB
BEFORE = {"one": 1_133, "eight": 5_867, "unread": 729}  # MB, as measured when they were unbounded
LONG = "x" * 900_000
SLOW_CLIENTS = 12
WRITE_TIMEOUT_S = 5


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    return [*_reads(), *_unread(), *_connections()]


def _reads() -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        with daemon(Path(folder), "--judge.grounding.enabled", "false") as running:
            _fill(running)
        with daemon(Path(folder), "--judge.grounding.enabled", "false") as running:
            _get(running, "/v1/queries?limit=1")
            rest = running.memory_mb()
            before_s, started = running.cpu_s, time.perf_counter()
            size = _get(running, "/v1/queries?failing=error&limit=300")[1]
            took, cpu_s = time.perf_counter() - started, running.cpu_s - before_s
            one = running.memory_mb("VmHWM") - rest
            answers, worst = _at_once(running, 8, "/v1/queries?failing=error&limit=1000")
            eight = running.memory_mb("VmHWM") - rest
            refused = _total(running, 'source="api",reason="reads"')
    stored = f"{BLOCKS} blocks of {PER_BLOCK:,} queries of 3 kB, one failed in each"
    return [
        (
            f"failing=error of {stored}",
            (
                f"{one:.0f} MB for {size / 1e6:.1f} MB, {cpu_s:.2f} s CPU, {took:.1f} s; "
                f"before {BEFORE['one']:,} MB"
            ),
            "under 100 MB and 1 s CPU",
        ),
        (
            "eight of them at once",
            (
                f"{eight:.0f} MB, {answers.count(200)} answered, {refused:.0f} refused and "
                f"counted, /livez within {1_000 * worst:.0f} ms; before {BEFORE['eight']:,} MB"
            ),
            "under 100 MB",
        ),
    ]


def _unread() -> list[tuple[str, str, str]]:
    flags = ("--judge.grounding.enabled", "false", "--limits.write_timeout", f"{WRITE_TIMEOUT_S}s")
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder), *flags) as running:
        for at in range(60):
            _post(running, json.dumps({"query_id": f"q{at}", "answer": LONG}).encode())
        rest = running.memory_mb()
        clients = [
            _ask(running, b"GET /v1/queries?limit=60 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            for _ in range(SLOW_CLIENTS)
        ]
        until = time.perf_counter() + 4 * WRITE_TIMEOUT_S
        while (
            closed := _total(running, 'source="http",reason="write_timeout"')
            + _total(running, 'source="api",reason="reads"')
        ) < SLOW_CLIENTS and time.perf_counter() < until:
            time.sleep(0.2)
        peak = running.memory_mb("VmHWM") - rest
        for client in clients:
            client.close()
    return [
        (
            f"{SLOW_CLIENTS} clients ask for 60 queries of 0.9 MB and do not read",
            (
                f"{peak:.0f} MB, {closed:.0f} closed or refused within {4 * WRITE_TIMEOUT_S} s; "
                f"before {BEFORE['unread']} MB for as long as they liked"
            ),
            "under 100 MB, all closed",
        )
    ]


def _connections() -> list[tuple[str, str, str]]:
    flags = ("--judge.grounding.enabled", "false")
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder), *flags) as running:
        rest = running.memory_mb()
        clients = [_ask(running, b"GET /livez HTTP/1.1\r\nx: ") for _ in range(3_000)]
        live = min(_live(running) for _ in range(3))
        peak = running.memory_mb("VmHWM") - rest
        for client in clients:
            client.close()
        refused = _total(running, 'source="http",reason="connections"')
    return [
        (
            "3,000 connections with half a request each",
            f"{peak:.0f} MB, {refused:,.0f} refused and counted, /livez in {1_000 * live:.0f} ms",
            "under 100 MB",
        )
    ]


def _fill(running: Daemon) -> None:
    for block in range(BLOCKS):
        records = (
            {"query_id": f"{block}-{at}", "answer": TEXT, "error": "boom" if at == 0 else None}
            for at in range(PER_BLOCK)
        )
        _post(running, b"\n".join(json.dumps(record).encode() for record in records))


def _post(running: Daemon, body: bytes) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    packed = gzip.compress(body, 1)
    with urllib.request.urlopen(
        urllib.request.Request(running.url + "/v1/queries", packed, headers), timeout=60
    ):
        pass


def _get(running: Daemon, path: str) -> tuple[int, int]:
    """Status and size of an answer."""
    try:
        with urllib.request.urlopen(running.url + path, timeout=200) as answer:
            return answer.status, len(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, len(error.read())


def _at_once(running: Daemon, count: int, path: str) -> tuple[list[int], float]:
    """Statuses of requests at the same time, and the longest that /livez took meanwhile."""
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(_get(running, path)[0]))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    worst = 0.0
    while any(thread.is_alive() for thread in threads):
        worst = max(worst, _live(running))
        time.sleep(0.05)
    return answers, worst


def _live(running: Daemon) -> float:
    """Seconds that a probe took, whether or not there was room for it."""
    started = time.perf_counter()
    for _ in range(100):
        try:
            if _get(running, "/livez")[0] == 200:
                break
        except OSError:
            pass
        time.sleep(0.05)
    return time.perf_counter() - started


def _ask(running: Daemon, request: bytes) -> socket.socket:
    parts = urlsplit(running.url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)  # the system reads little for it
    client.settimeout(10)
    client.connect((parts.hostname, parts.port))
    client.sendall(request)
    return client


def _total(running: Daemon, labels: str) -> float:
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in running.get("/metrics").decode().splitlines()
        if line.startswith("ragmon_rejected_total{")
        and all(part in line for part in labels.split(","))
    )
