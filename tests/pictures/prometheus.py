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

_START_TIMEOUT_S = 60.0


class Series(Struct, frozen=True):
    """One series of an answer."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]  # unix seconds, value

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


class Prometheus:
    """Its query API."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    def is_ready(self) -> bool:
        """True once it answers."""
        try:
            return self._session.get(f"{self._url}/-/ready", timeout=5).ok
        except requests.ConnectionError:
            return False

    def range(self, query: str, start: float, end: float, step_s: float) -> list[Series]:
        """Values over time."""
        parameters = {"query": query, "start": start, "end": end, "step": step_s}
        answer = self._ask("query_range", parameters)
        return [_series(series, series["values"]) for series in answer]

    def instant(self, query: str, at: float) -> list[Series]:
        """Values at one time."""
        answer = self._ask("query", {"query": query, "time": at})
        return [_series(series, [series["value"]]) for series in answer]

    def _ask(self, path: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        url = f"{self._url}/api/v1/{path}"
        answer = self._session.get(url, params=parameters, timeout=60).json()
        if answer["status"] != "success":
            raise RagmonError(f"{parameters['query']}: {answer.get('error')}")
        series: list[dict[str, Any]] = answer["data"]["result"]
        return series


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
    process = subprocess.Popen(
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
        prometheus = Prometheus(f"http://{address}")
        _await(prometheus)
        yield prometheus
    finally:
        process.terminate()
        process.wait(30)


def _await(prometheus: Prometheus) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + _START_TIMEOUT_S
    while not prometheus.is_ready():
        if clock.monotonic() > deadline:
            raise RagmonError("Prometheus did not start")
        clock.sleep(0.1)


def _run(program: str, *arguments: str) -> None:
    ran = subprocess.run(
        [_program(program), *arguments], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RagmonError(f"{program}: {ran.stdout}{ran.stderr}")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise RagmonError(f"{name} is not installed", hint="run make tools")
    return path


def _series(answer: dict[str, Any], values: list[tuple[float, str]]) -> Series:
    return Series(answer["metric"], tuple((float(at), float(value)) for at, value in values))
