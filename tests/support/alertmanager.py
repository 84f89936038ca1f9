"""A real Alertmanager that notifies a webhook."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.support.prometheus import run_alertmanager

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

    def alerts(self) -> dict[str, dict[str, Any]]:
        """The active alerts by name."""
        asked = requests.get(f"{self.url}/api/v2/alerts", timeout=5).json()
        return {each["labels"]["alertname"]: each for each in asked}


@contextmanager
def alertmanager(folder: Path, hook: str) -> Iterator[Alertmanager]:
    """It groups by pipeline and notifies a webhook."""
    config = folder / "alertmanager.yml"
    config.write_text(_CONFIG.format(url=hook), encoding="utf-8")
    with run_alertmanager(folder, config) as address:
        yield Alertmanager(f"http://{address}")
