"""Writes the dashboards: ``python -m grafana.generate``."""

import importlib
import json
import pkgutil
from pathlib import Path

from grafana import boards
from grafana.board import Board

DASHBOARDS = Path(__file__).parent / "dashboards"


def all_boards() -> list[Board]:
    """Every board, one a file."""
    names = sorted(module.name for module in pkgutil.iter_modules(boards.__path__))
    modules = [importlib.import_module(f"{boards.__name__}.{name}") for name in names]
    return [module.BOARD for module in modules]


def rendered() -> dict[str, str]:
    """File names and contents."""
    return {
        f"{board.name}.json": json.dumps(board.json(), indent=2) + "\n" for board in all_boards()
    }


if __name__ == "__main__":
    for file, text in rendered().items():
        (DASHBOARDS / file).write_text(text, encoding="utf-8")
