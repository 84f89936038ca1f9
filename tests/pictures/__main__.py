"""Draw every dashboard: ``python -m tests.pictures [SCRAPED]``, six minutes without a file."""

import json
import sys
import tempfile
from pathlib import Path

from matplotlib import rc_context

from grafana.generate import DASHBOARDS
from ragmon.demo.traffic import DAY_S
from ragmon.logs import configure
from tests.pictures.dashboard import Painter
from tests.pictures.day import STEP_S, record
from tests.pictures.prometheus import serving
from tests.pictures.style import SETTINGS

PICTURES = DASHBOARDS.parent / "pictures"
NOW = 1_795_176_000.0  # the noon of a Friday, so that pictures differ in what matters alone


def draw(folder: Path, scraped: Path) -> None:
    """Write all pictures, out of what was scraped."""
    with serving(folder, scraped) as prometheus:
        painter = Painter(prometheus, NOW - DAY_S, NOW, STEP_S)
        for path in sorted(DASHBOARDS.glob("*.json")):
            figure = painter.board(json.loads(path.read_text(encoding="utf-8")))
            picture = PICTURES / f"{path.stem}.svg"
            with rc_context(SETTINGS):
                figure.savefig(picture, metadata={"Date": None})
            print(picture)


if __name__ == "__main__":
    configure("console", "error")  # two days of alerts and a clock that jumps are no news
    with tempfile.TemporaryDirectory(prefix="ragmon-pictures-") as name:
        work = Path(name)
        kept = Path(sys.argv[1]) if len(sys.argv) > 1 else record(work, NOW)
        draw(work, kept)
