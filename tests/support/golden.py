"""Golden files: what comes out, kept in the repository and read in review."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
REWRITE = "GOLDEN"


def same(name: str, text: str, folder: Path = GOLDEN) -> None:
    """Compare with the golden file of that name; ``make golden`` writes it instead.

    Args:
        name: of the file.
        text: its content as it should be.
        folder: another one for files that are generated for users.

    Raises:
        AssertionError: they differ; pytest shows where.
    """
    path = folder / name
    if os.environ.get(REWRITE):
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run `make golden`, and read the diff"
    assert text == path.read_text(encoding="utf-8"), "run `make golden`, and read the diff"
