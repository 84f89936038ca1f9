"""Golden files: what comes out, kept in the repository and read in review."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
REWRITE = "GOLDEN"


def same(name: str, text: str) -> None:
    """Compare with the golden file of that name; ``make golden`` writes it instead.

    Raises:
        AssertionError: they differ; pytest shows where.
    """
    path = GOLDEN / name
    if os.environ.get(REWRITE):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run `make golden`, and read the diff"
    assert text == path.read_text(encoding="utf-8"), "run `make golden`, and read the diff"
