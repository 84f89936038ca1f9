"""A real Prometheus over what was scraped, and its answers."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from msgspec import Struct

from ragmon.clock import SystemClock
from ragmon.errors import RagmonError

_PATIENCE_S = 60.0


class Series(Struct, frozen=True):
    """One series of an answer."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]  # unix seconds, value

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


class Prometheus:
    """Its API."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return self._session.get(f"{self._url}/-/ready", timeout=5).ok
        except requests.ConnectionError:
            return False

    def range(self, query: str, start: float, end: float, step_s: float) -> list[Series]:
        """Values over time."""
        asked = {"query": query, "start": start, "end": end, "step": step_s}
        return [_series(each, each["values"]) for each in self._ask("query_range", asked)]

    def instant(self, query: str, at: float) -> list[Series]:
        """Values at one time."""
        found = self._ask("query", {"query": query, "time": at})
        return [_series(each, [each["value"]]) for each in found]

    def _ask(self, path: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self._session.get(f"{self._url}/api/v1/{path}", params=asked, timeout=60).json()
        if answer["status"] != "success":
            raise RagmonError(f"{asked['query']}: {answer.get('error')}")
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


@contextmanager
def serving(folder: Path, scraped: Path) -> Iterator[Prometheus]:
    """Prometheus over a file of OpenMetrics with times.

    Raises:
        RagmonError: Prometheus is not installed, or refuses the file.
    """
    blocks = folder / "tsdb"
    _run("promtool", "tsdb", "create-blocks-from", "openmetrics", str(scraped), str(blocks))
    (folder / "prometheus.yml").write_text("{}\n", encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(  # noqa: S603 - a program of this machine, our own arguments
        [
            _program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={blocks}",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
            "--log.level=error",
        ]
    )
    try:
        found = Prometheus(f"http://{address}")
        _await(found)
        yield found
    finally:
        process.terminate()
        process.wait(30)


def _await(prometheus: Prometheus) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + _PATIENCE_S
    while not prometheus.is_ready():
        if clock.monotonic() > deadline:
            raise RagmonError("Prometheus did not start")
        clock.sleep(0.1)


def _run(program: str, *arguments: str) -> None:
    ran = subprocess.run(  # noqa: S603 - a program of this machine, our own arguments
        [_program(program), *arguments], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RagmonError(f"{program}: {ran.stdout}{ran.stderr}")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise RagmonError(f"{name} is not installed", hint="run make tools")
    return path


def _series(found: dict[str, Any], values: list[tuple[float, str]]) -> Series:
    return Series(found["metric"], tuple((float(at), float(value)) for at, value in values))
