"""Draws every dashboard: ``python -m grafana.drawing [NAME]``."""

import json
import sys
import tempfile
from pathlib import Path

from grafana.drawing.day import STEP_S, record
from grafana.drawing.picture import Painter
from grafana.drawing.prometheus import serving
from grafana.generate import DASHBOARDS
from ragmon.demo.traffic import DAY_S
from ragmon.logs import configure

PICTURES = DASHBOARDS.parent / "pictures"
NOW = 1_795_176_000.0  # the noon of a Friday, so that pictures differ in what matters alone


def draw(folder: Path, scraped: Path) -> None:
    """Write all pictures, out of what was scraped."""
    with serving(folder, scraped) as prometheus:
        painter = Painter(prometheus, NOW - DAY_S, NOW, STEP_S)
        for path in sorted(DASHBOARDS.glob("*.json")):
            board = json.loads(path.read_text(encoding="utf-8"))
            picture = PICTURES / f"{path.stem}.svg"
            picture.write_text(painter.board(board), encoding="utf-8")
            print(picture)  # noqa: T201 - a command


if __name__ == "__main__":
    configure("console", "error")  # two days of alerts and a clock that jumps are no news
    with tempfile.TemporaryDirectory(prefix="ragmon-pictures-") as name:
        work = Path(name)
        kept = Path(sys.argv[1]) if len(sys.argv) > 1 else record(work, NOW)
        draw(work, kept)
