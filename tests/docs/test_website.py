"""The website builds from deploy/ without a broken link and without the network."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

if importlib.util.find_spec("material") is None and os.environ.get("CI") != "true":
    pytest.skip("mkdocs-material is not installed: `make docs` does it", allow_module_level=True)


def build(folder, *arguments):
    """`make docs`, in another folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *arguments]
    return subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, "--site-dir", str(folder))
    assert built.returncode == 0, built.stderr
    assert "excluded from the built site" not in built.stderr
    return folder


def test_every_page_is_there_and_can_be_searched(site):
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    places = {document["location"].partition("#")[0] for document in index["docs"]}
    docs = [path for path in (ROOT / "deploy/docs").rglob("*.md") if path.name != "index.md"]
    paths = [path.relative_to(ROOT / "deploy/docs") for path in docs]
    for folder in ("runbooks", "decisions"):
        paths += [
            path.relative_to(ROOT / "deploy") for path in (ROOT / "deploy" / folder).glob("*")
        ]
    assert len(paths) > 60
    assert {f"{path.with_suffix('')}/" for path in paths} <= places
    assert (site / "index.html").exists()


@pytest.mark.parametrize("path", ["index.html", "guides/read/index.html"])
def test_what_a_page_loads_is_on_the_site(site, path):
    html = (site / path).read_text(encoding="utf-8")
    loaded = re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=\"([^\"]+)", html)
    assert {Path(name).suffix for name in loaded} >= {".css", ".js"}
    folder = (site / path).parent
    assert [name for name in loaded if not (folder / name.partition("?")[0]).exists()] == []


def test_a_broken_link_fails_the_build(tmp_path):
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "deploy/docs").mkdir(parents=True)
    (tmp_path / "deploy/docs/index.md").write_text("# Start\n\n[x](#nowhere)\n")
    config = config.partition("\nnav:\n  -")[0].replace("[deploy/website.py]", "[]")
    (tmp_path / "mkdocs.yml").write_text(config)
    built = build(tmp_path)
    assert built.returncode != 0
    assert "nowhere" in built.stderr
