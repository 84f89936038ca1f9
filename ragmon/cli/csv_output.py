"""CSV on standard output, for a spreadsheet or for the eye."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from ragmon.cli.console import say
from ragmon.queries.exports import plain_cell


def say_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a heading and rows.

    Args:
        columns: names of the columns.
        rows: values; no text among them can start a formula or control a terminal.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([plain_cell(value) for value in row] for row in rows)
    say(text.getvalue(), end="")
