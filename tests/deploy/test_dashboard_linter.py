"""Dashboards pass Grafana's own linter, strictly and without exceptions."""

import json
import shutil
import subprocess

import pytest

from tests.support.boards import FOLDER
from tests.support.tools import OWN

NAME = "dashboard-linter"


@pytest.fixture(scope="module")
def linter():
    path = shutil.which(NAME) or shutil.which(NAME, path=OWN)
    if path is None:
        pytest.skip(f"no {NAME}: `make dashboard-linter` builds it, a quarter of an hour with Go")
    return path


def run(linter, path):
    command = [linter, "lint", "--strict", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.json")))
def test_the_linter_has_no_objection(linter, name):
    result = run(linter, FOLDER / name)
    assert result.returncode == 0, [line for line in result.stdout.splitlines() if "❌" in line]
    assert list(FOLDER.glob("*.lint")) == []  # its file of exceptions


def test_the_linter_objects_to_a_query_of_every_instance(linter, tmp_path):
    path = FOLDER / "how-fast.json"
    board = path.read_text(encoding="utf-8").replace(r", instance=~\"$instance\"", "")
    assert json.loads(board)
    (tmp_path / path.name).write_text(board)
    result = run(linter, tmp_path / path.name)
    assert result.returncode == 1
    assert "instance selector not found" in result.stdout + result.stderr
