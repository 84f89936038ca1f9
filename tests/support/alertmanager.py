"""A real Alertmanager on a free port."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.support.tools import program
from tests.support.wait import eventually

_CONFIG = """
route: {{receiver: hook, group_by: [pipeline], group_wait: 300ms, group_interval: 500ms}}
receivers:
  - name: hook
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


class Alertmanager:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def up(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=5).ok
        except requests.ConnectionError:
            return False

    def alerts(self) -> dict[str, dict[str, Any]]:
        """The active alerts by name."""
        asked = requests.get(f"{self.url}/api/v2/alerts", timeout=5).json()
        return {each["labels"]["alertname"]: each for each in asked}


@contextmanager
def alertmanager(folder: Path, hook: str) -> Iterator[Alertmanager]:
    """It groups by pipeline and notifies a webhook."""
    path = program("prometheus-alertmanager")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "alertmanager.yml"
    config.write_text(_CONFIG.format(url=hook), encoding="utf-8")
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(
            [
                path, f"--config.file={config}", f"--storage.path={folder / 'am'}",
                f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        site = Alertmanager(f"http://127.0.0.1:{port}")
        eventually(site.up, "Alertmanager is ready", 30)
        yield site
    finally:
        process.kill()
        process.wait(10)
