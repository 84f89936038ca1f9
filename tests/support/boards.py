"""The dashboards as they are committed, and their expressions with variables filled in."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from grafana.filling import filled

FOLDER = Path(__file__).parents[2] / "grafana/dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*.json"))
}


class Asked(NamedTuple):
    """One expression of a panel."""

    board: str
    panel: str
    expression: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel}: {self.expression}"


def shown(board: dict[str, Any]) -> list[dict[str, Any]]:
    """What is seen at once: panels without the headings of rows, and without what is folded."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels, without the headings of rows."""
    folded = [panel for row in board["panels"] for panel in row.get("panels", ())]
    return shown(board) + folded


def asked(**variables: str) -> list[Asked]:
    """Every expression of every panel, filled in."""
    return [
        Asked(name, panel["title"], filled(target["expr"], **variables))
        for name, board in BOARDS.items()
        for panel in panels(board)
        for target in panel["targets"]
    ]
