"""Alerts for the terminal: the open ones in a line each, or one with all its evidence."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ragmon.alerts import SEVERITIES
from ragmon.alerts.timeline import HISTORY

_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}
_MOST = 20


def open_view(alerts: Sequence[dict[str, Any]]) -> RenderableType:
    """The alerts of a report: what should be heard, and how many others that explains."""
    heard = [each for each in alerts if not each["inhibited_by"] and each["state"] != "pending"]
    heard.sort(key=lambda each: -SEVERITIES.index(each["severity"]))
    parts: list[RenderableType] = [
        Group(_title(each), Padding(Text(_sentence(each)), (0, 0, 0, 2))) for each in heard[:_MOST]
    ]
    if explained := len(alerts) - len(heard):
        parts.append(Text(f"{explained} more are pending, or explained by a cause.", "dim"))
    return Group(*parts, Text()) if parts else Text("No alert is open.\n", "dim")


def alert_view(alert: dict[str, Any]) -> RenderableType:
    """One alert with its evidence."""
    evidence = alert["evidence"] or {}
    lines = [Text(_sentence(alert)), *_facts(alert, evidence)]
    if worst := evidence.get("worst"):
        lines.append(Text("Worst queries", "bold"))
        lines += [Text(f"  {each['query'] or each['query_id']}: {each['why']}") for each in worst]
    if tries := evidence.get("remedies"):
        lines.append(Text("What to try", "bold"))
        lines += [Text(f"  {at}. {each}") for at, each in enumerate(tries, 1)]
    return Group(_title(alert), Padding(Group(*lines), (0, 0, 1, 2)))


def _facts(alert: dict[str, Any], evidence: dict[str, Any]) -> Iterator[Text]:
    if evidence.get("slices"):
        parts = (
            f"{each['dimension']} {each['value']} ({each['share']:.0%})"
            for each in evidence["slices"]
        )
        yield Text.assemble(("Driven by: ", "bold"), ", ".join(parts))
    if evidence.get("modes"):
        shifts = (
            f"{each['mode']} {each['before']:.1%} → {each['since']:.1%}"
            for each in evidence["modes"]
        )
        yield Text.assemble(("Failure modes: ", "bold"), ", ".join(shifts))
    if evidence.get("runbook"):
        yield Text.assemble(("Runbook: ", "bold"), evidence["runbook"])
    if alert["ended_at"] is not None:
        yield Text.assemble(("Over since: ", "bold"), _when(alert["ended_at"]))


def _title(alert: dict[str, Any]) -> Text:
    of = f" ({alert['dimension']} {alert['value']})" if alert["dimension"] else ""
    word = "fired" if alert["state"] == "resolved" else "since"
    said = f", {word} {_when(alert['fired_at'])}" if alert["fired_at"] is not None else ""
    state = alert["state"].replace("_", " ")
    style = "bold green" if state == "resolved" else _STYLES[alert["severity"]]
    return Text.assemble(
        (alert["name"], style),
        f" in {alert['pipeline']}{of}: {alert['severity']}, {state}{said}",
        _silenced(alert["silenced_by"], alert["state"]),
    )


def _silenced(by: str, state: str) -> str:
    if by == HISTORY.name:
        told = "nobody was told" if state == "resolved" else "nobody was told yet"
        return f", found in history: {told}"
    return f", silenced by {by}" if by else ""


def _sentence(alert: dict[str, Any]) -> str:
    return str((alert["evidence"] or {}).get("sentence", ""))


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
