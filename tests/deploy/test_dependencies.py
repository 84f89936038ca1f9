"""A fresh clone has everything: what is imported is declared, and what is declared is locked."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCK = (ROOT / "requirements.lock").read_text()
OWN = {"ragmon", "tests", "grafana"}


def canonical(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


NOT_LOCKED = {"embeddings", "local-judge"}  # they bring torch, which no one should get unasked
DECLARED = {canonical(each) for each in PROJECT["dependencies"]} | {
    canonical(each) for name in EXTRAS.keys() - NOT_LOCKED for each in EXTRAS[name]
}
LOCKED = set(re.findall(r"^([\w.-]+)==", LOCK, re.MULTILINE))


def imported(path: Path) -> set[str]:
    """Top-level modules that the file cannot be loaded without."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add((node.module or "").partition(".")[0])
    return found - set(sys.stdlib_module_names) - OWN


# Who uses an adapter has its framework; `make frameworks` installs them for their tests.
FRAMEWORKS = {"haystack", "langchain_core", "llama_index"}
# The process of the judge `judge.local` alone imports what the extra local-judge brings.
LOCAL_JUDGE = {"torch", "transformers", "safetensors", "tokenizers"}
LOCAL_JUDGE_FILES = {
    "ragmon/judges/local/loading.py",
    "ragmon/judges/local/network.py",
    "tests/support/tiny_models.py",
}
FILES = [
    *ROOT.glob("ragmon/**/*.py"),
    *ROOT.glob("tests/**/test_*.py"),
    *ROOT.glob("tests/support/*.py"),
    *ROOT.glob("tests/pictures/*.py"),
]


def test_everything_imported_is_locked():
    distributions = packages_distributions()
    missing = {
        module: path.name
        for path in FILES
        for module in imported(path)
        if module not in FRAMEWORKS
        and not (module in LOCAL_JUDGE and str(path.relative_to(ROOT)) in LOCAL_JUDGE_FILES)
        and not {canonical(name) for name in distributions.get(module, ())} & LOCKED
    }
    assert len(FILES) > 200
    assert missing == {}


def test_everything_declared_is_locked():
    assert {"numpy", "pytest"} <= DECLARED
    assert sorted(DECLARED - LOCKED) == []
    assert "torch" not in LOCKED


@pytest.mark.parametrize("name", sorted(LOCKED))
def test_every_lock_has_hashes(name):
    entry = re.search(rf"^{re.escape(name)}==(?:.*\\\n)+", LOCK, re.MULTILINE)
    assert entry
    assert "--hash=sha256:" in LOCK[entry.start() : entry.end() + 100]


def test_the_lock_names_no_index():
    assert not re.search(r"://|--(extra-)?index-url|--find-links", LOCK)
