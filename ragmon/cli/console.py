"""The one way in which commands print."""

import sys
from typing import Any

from ragmon.terminal import json_text, one_line, printable


def say(text: str = "", *, end: str = "\n") -> None:
    """Print to standard output."""
    sys.stdout.write(printable(text) + end)


def warn(text: str) -> None:
    """Print to standard error."""
    sys.stderr.write(printable(text) + "\n")


def complain(error: Exception) -> None:
    """Print why a command ends, on one line."""
    sys.stderr.write(f"ragmon: {one_line(str(error))}\n")


def say_json(content: Any) -> None:
    """Print JSON for programs."""
    sys.stdout.write(json_text(content) + "\n")
