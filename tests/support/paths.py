"""Folders that tests read from, whatever folder the test itself lies in."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "data"
BENCHMARKS = TESTS / "benchmarks"
