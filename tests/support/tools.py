"""Real programs that tests drive where they are installed."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """The path of a program; where it is missing, a skip on a laptop and a failure in CI."""
    path = shutil.which(name)
    if path is None:
        missing = f"{name} is not installed; on Debian: apt-get install prometheus"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path
