"""Draw the pages for people, over the demo: ``python -m tests.pictures.pages``, two minutes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from tests.support.browser import Tab, browser, tab
from tests.support.http import Site
from tests.support.wait import eventually

PICTURES = Path(__file__).parents[2] / "deploy" / "docs" / "pictures"
MOST_BYTES = 150_000
_DEMO_S = 300.0
_COLOURS = 200  # of a picture: a third of the bytes, and no eye sees it


class Shot(NamedTuple):
    """A picture of the upper part of a page."""

    name: str
    path: str
    height: int  # pixels, at a width of 1280


def shots(site: Site) -> list[Shot]:
    """The pages that the documentation shows."""
    (incident, *_) = site.get("/v1/incidents?state=open").json["incidents"]
    (query, *_) = site.get(
        "/v1/queries?version=2026.2-fast&failing=cited_unretrieved,unfaithful&limit=1"
    ).json["queries"]
    return [
        Shot("overview", "/", 780),
        Shot("pipeline", "/pipelines/python-docs", 900),
        Shot("incident", f"/incidents/{incident['id']}", 860),
        Shot("query", f"/queries/{query['record']['query_id']}", 860),
        Shot("versions", "/versions", 900),
        Shot("judge", "/judge", 700),
    ]


def draw(site: Site, folder: Path) -> None:
    """Write all pictures into a folder."""
    with browser() as chromium, tab(chromium, site.url) as window:
        for shot in shots(site):
            _draw(window, shot, folder / f"{shot.name}.png")


def _draw(window: Tab, shot: Shot, path: Path) -> None:
    window.open(shot.path)
    window.look({"width": 1280, "height": shot.height}, "light")
    window.page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.quantize(_COLOURS).save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MOST_BYTES, f"{path.name}: {size} bytes; make it less high"
    print(path)


@contextmanager
def demo(folder: Path) -> Iterator[Site]:
    """The demo, once its day is over."""
    output = folder / "output"
    with output.open("wb") as file:
        process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, "-m", "ragmon", "demo", "--port", "0"],
            stdout=file, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
    try:
        eventually(lambda: "Ctrl-C stops it" in output.read_text(), "the day is over", _DEMO_S)
        (url,) = re.findall("on top: (http://[^/]+)/", output.read_text())
        yield Site(url)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ragmon-pages-") as name, demo(Path(name)) as site:
        draw(site, PICTURES)
