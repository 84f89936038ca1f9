"""Daemons to test against: one in this process, and the real command in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import requests

from ragmon.clock import Clock, SystemClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from tests.support.http import Site
from tests.support.wait import eventually


class Running(Site):
    """A daemon in a thread of this process."""

    def __init__(self, url: str, daemon: Daemon) -> None:
        super().__init__(url)
        self.daemon = daemon

    @property
    def writer(self):
        return self.daemon._engine.writer

    @contextmanager
    def stalled_writer(self) -> Iterator[None]:
        """Nothing is committed while the block runs, as on a disk that hangs."""
        reached, release = threading.Event(), threading.Event()

        def stall() -> None:
            reached.set()
            release.wait(30)

        self.writer.thread.submit(stall)
        assert reached.wait(10)
        try:
            yield
        finally:
            release.set()


@contextmanager
def running(data_dir: Path, clock: Clock | None = None, **flags: Any) -> Iterator[Running]:
    """A daemon in a thread, ready; double underscores in flags stand for dots.

    The judge is off unless asked for, so that every commit is one that the test asked for.
    """
    given = {"port": 0, "data_dir": str(data_dir), "judge.grounding.enabled": False}
    given |= {name.replace("__", "."): value for name, value in flags.items()}
    settings = load(None, given, {}).settings
    daemon = Daemon(settings, clock or SystemClock())
    ready = threading.Event()
    thread = threading.Thread(target=daemon.run, args=(lambda _url: ready.set(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield Running(daemon.url, daemon)
    finally:
        daemon.stop()
        thread.join(20)
        assert not thread.is_alive()


def json_among_logs(printed: str) -> Any:
    """What a command printed as JSON, while a daemon in a thread may have logged beside it."""
    found, _ = json.JSONDecoder().raw_decode(printed[printed.index("{") :])
    return found


class Process(Site):
    """``ragmon serve`` on a free port, with its log in a file."""

    def __init__(
        self,
        data_dir: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        ready: bool = True,
    ) -> None:
        self.log = data_dir.with_name(data_dir.name + ".log")
        start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *prefix, sys.executable, "-m", "ragmon", "serve",
                    "--port", "0", "--data_dir", str(data_dir), "--log.format", "json", *flags,
                ],
                stderr=log,
                stdout=log,
                cwd=data_dir.parent,
                env=_without_settings() | dict(environment or {}),
            )  # fmt: skip
        self._start = start
        super().__init__(self._url())
        if ready:
            self.wait_ready()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    def events(self) -> list[dict[str, Any]]:
        """What it logged since it started."""
        lines = self.log.read_bytes()[self._start :].splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith(b"{")]

    def wait_ready(self) -> None:
        eventually(self._is_ready, "the daemon is ready", 120)

    def wait_active(self) -> None:
        """Until it is ready, and no standby any more."""
        eventually(lambda: self._is_ready(as_active=True), "the daemon is active", 120)

    def _is_ready(self, *, as_active: bool = False) -> bool:
        try:
            answer = self.get("/readyz")
            return answer.status == 200 and not (as_active and "standby" in answer.text)
        except requests.ConnectionError:  # a standby gives up its connections as it takes over
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            return False

    def kill(self) -> None:
        """As a power cut would end it."""
        self.process.kill()
        self.process.wait(10)

    def terminate(self, timeout_s: float = 10.0) -> int:
        """Ask it to end; returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def rss_bytes(self) -> int:
        """Memory in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def _url(self) -> str:
        def listening() -> str | None:
            said = [each["url"] for each in self.events() if each.get("event") == "listening"]
            assert said or self.process.poll() is None, self.log.read_text(encoding="utf-8")
            return said[0] if said else None

        return eventually(listening, "the daemon listens", 120)


def serve_once(data_dir: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """``ragmon serve`` that is expected to refuse to start."""
    return subprocess.run(
        [sys.executable, "-m", "ragmon", "serve", "--port", "0", "--data_dir", data_dir, *flags],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=data_dir.parent,
        env=_without_settings(),
    )


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGMON_")}
