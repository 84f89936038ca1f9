"""The threat model names a test for each promise, and each of them is there."""

import re

import pytest

from tests.support.paths import ROOT

MODEL = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall("`(tests/[^`]+)`", MODEL)))
BOUNDARIES = (
    "Network clients without a token",
    "Network clients with a token",
    "Browsers",
    "Texts of end users",
    "Receivers of alerts",
    "The language model that judges",
    "Files that are followed",
    "Buckets, databases and tracing tools that are read",
    "The store on disk",
    "The cluster",
)


def promises(boundary: str) -> list[str]:
    """The rows of a boundary's table, without its head."""
    section = MODEL.partition(f"### {boundary}\n")[2].split("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith(("| promise", "| ---"))]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_each_boundary_has_promises_and_each_promise_a_test(boundary):
    assert promises(boundary)
    for row in promises(boundary):
        assert re.search(r"\| (`tests/\S+\.py`(, )?)+ \|$", row), row


@pytest.mark.parametrize("path", TESTS)
def test_a_named_test_exists_and_has_tests(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "def test_" in text


def test_the_model_is_read():
    assert len(TESTS) > 12
    assert len(re.findall("^### ", MODEL, re.MULTILINE)) == len(BOUNDARIES)


def test_each_attack_names_tests_that_are_there():
    table = (ROOT / "tests/benchmarks/README.md").read_text(encoding="utf-8")
    named = re.findall(
        r"`([\w/]+\.py)(?:::(\w+))?`", table.partition("## attacks and their tests")[2]
    )
    assert len(named) > 50
    for path, test in named:
        assert f"def {test or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), path
