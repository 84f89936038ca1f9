"""Real Prometheus and Alertmanager on free ports."""

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.support.tools import program
from tests.support.wait import eventually


class Prometheus:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, path: str, **params: object) -> Any:
        """The data of an answer."""
        answer = requests.get(f"{self._url}/api/v1/{path}", params=params, timeout=10).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, query: str) -> dict[str, float]:
        """Values of an instant query, by their labels as JSON."""
        found = self.ask("query", query=query)["result"]
        return {
            json.dumps({k: v for k, v in each["metric"].items() if k not in ("instance", "job")}):
            float(each["value"][1])
            for each in found
        }  # fmt: skip

    def value(self, query: str) -> float | None:
        """The first value of an instant query."""
        return next(iter(self.values(query).values()), None)

    def rules(self) -> list[dict[str, Any]]:
        """Every rule that is loaded, with its health."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


@contextmanager
def run_prometheus(
    folder: Path, config: Path, *flags: str, name: str = "prometheus"
) -> Iterator[Prometheus]:
    """A Prometheus with this configuration."""
    own = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}")
    with running(folder, name, [*own, *flags]) as url:
        yield Prometheus(url)


@contextmanager
def run_alertmanager(folder: Path, config: Path) -> Iterator[str]:
    """An Alertmanager with this configuration; its address."""
    own = [f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}"]
    # Debian's name, as its package of Prometheus has it.
    with running(folder, "prometheus-alertmanager", [*own, "--cluster.listen-address="]) as url:
        yield url.removeprefix("http://")


@contextmanager
def running(folder: Path, name: str, flags: Sequence[str]) -> Iterator[str]:
    """A program of Prometheus' kind when it is ready; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    output = folder / f"{name}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [program(name), *flags, f"--web.listen-address={address}"], stdout=log, stderr=log
        )

    def ready() -> bool:
        assert process.poll() is None, output.read_text(encoding="utf-8")
        try:
            return requests.get(f"http://{address}/-/ready", timeout=5).ok
        except requests.ConnectionError:
            return False

    try:
        eventually(ready, f"{name} is ready", 30)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(10)
