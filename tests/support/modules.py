"""Optional modules that tests need."""

import importlib
import os
from typing import Any

import pytest


def module(name: str) -> Any:
    """An optional module; where it is missing, a skip on a laptop and a failure in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing = f"{name} is not installed; run `make .venv`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
