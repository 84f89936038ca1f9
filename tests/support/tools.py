"""Real programs that tests drive where they are installed."""

import os
import shutil
from pathlib import Path

import pytest

OWN = Path(__file__).parents[2] / ".venv/tools"


def program(name: str) -> str:
    """The path of a program; where it is missing, a skip on a laptop and a failure in CI."""
    path = shutil.which(name) or shutil.which(name, path=OWN)
    if path is None:
        missing = f"{name} is not installed; run `make tools`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path
