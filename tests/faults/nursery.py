"""Daemons by fork: each is a process of its own, ready in a tenth of a second.

``ragmon serve`` spends a second of CPU on its imports. One process, with the faults preloaded, does
that once; every daemon is a fork of it that runs the same command.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.support.closing import Closing
from tests.support.http import Site
from tests.support.paths import ROOT
from tests.support.wait import eventually


class Nursery(Closing):
    """The process that forks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        plain = {name: text for name, text in os.environ.items() if not name.startswith("RAGMON_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=plain | {"OPENBLAS_NUM_THREADS": "1"} | dict(environment),
            text=True,
        )

    def close(self) -> None:
        """End it; daemons that still run are killed."""
        self._process.communicate(timeout=30)

    def start(self, data_dir: Path, *flags: str) -> "Daemon":
        """A daemon that answers."""
        log = data_dir.with_name(data_dir.name + ".log")
        log.touch()
        begins_at = log.stat().st_size
        arguments = ["serve", "--port", "0", "--data_dir", str(data_dir), "--log.format", "json"]
        pid = self.ask(start=[*arguments, *flags], log=str(log), folder=str(data_dir.parent))
        return Daemon(self, pid, log, begins_at)

    def ask(self, **command: Any) -> int:
        """One command and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery has ended"
        return int(line)


class Daemon(Site, Closing):
    """One daemon."""

    def __init__(self, nursery: Nursery, pid: int, log: Path, begins_at: int) -> None:
        self.pid = pid
        self.log = log
        self.running = True
        self._begins_at = begins_at
        self._nursery = nursery
        super().__init__(self._listening())
        eventually(lambda: self.get("/readyz").status == 200, "the daemon is ready", 60)

    def close(self) -> None:
        """Kill it, if it runs."""
        if self.running:
            self.kill()

    def events(self) -> list[dict[str, Any]]:
        """What it logged."""
        lines = self.log.read_bytes()[self._begins_at :].splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith(b"{")]

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._end(9)

    def terminate(self) -> int:
        """Ask it to end; its exit status."""
        return self._end(15)

    def _end(self, signal: int) -> int:
        self.running = False
        return self._nursery.ask(signal=signal, pid=self.pid)

    def _listening(self) -> str:
        def url() -> str:
            urls = [each["url"] for each in self.events() if each.get("event") == "listening"]
            failed = [each for each in self.events() if each.get("event") == "start_failed"]
            assert not failed, failed
            return urls[0] if urls else ""

        return eventually(url, "the daemon listens", 300)


def _serve() -> None:
    """Fork and signal as stdin says."""
    from ragmon.cli import main
    from ragmon.daemon import serve

    assert serve  # imported once, for all
    running: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            pid = os.fork()
            if pid == 0:
                _become(command, main)
            running.add(pid)
            print(pid, flush=True)
        else:
            os.kill(command["pid"], command["signal"])
            _, status = os.waitpid(command["pid"], 0)
            running.discard(command["pid"])
            print(os.waitstatus_to_exitcode(status), flush=True)
    for pid in running:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _become(command: dict[str, Any], main: Any) -> None:
    """Run the command in this fork, and end it."""
    status = 1
    try:
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(0)
        os.chdir(command["folder"])
        if command.get("patch"):
            importlib.import_module(command["patch"]).apply()
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        status = main(command["start"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(status or 0)


if __name__ == "__main__":
    _serve()
