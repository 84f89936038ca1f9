"""Alerts for the terminal: the open ones in brief, or one with all its evidence."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ragmon.alerts import SEVERITIES
from ragmon.alerts.as_json import AlertView, LinkedEvidence
from ragmon.alerts.example_texts import clip, lookup_text, missing_text, topics_text
from ragmon.alerts.message import mode_shifts
from ragmon.alerts.sentences import MOST_SENTENCE
from ragmon.alerts.timeline import silenced_text
from ragmon.durations import minute_text
from ragmon.terminal import one_line_each

_STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}
_MOST = 20


def open_view(alerts: Sequence[AlertView]) -> RenderableType:
    """The alerts of a report that a person should know of, and the number of the others."""
    causes = [alert for alert in alerts if not alert.inhibited_by and alert.state != "pending"]
    causes.sort(key=lambda alert: -SEVERITIES.index(alert.severity))
    parts: list[RenderableType] = [
        Group(_title(alert), Padding(Group(*_about(alert)), (0, 0, 0, 2)))
        for alert in causes[:_MOST]
    ]
    if others := len(alerts) - len(causes):
        parts.append(Text(f"{others} more are pending or inhibited by another alert.", "dim"))
    return Group(*parts, Text()) if parts else Text("No alert is open.\n", "dim")


def alert_view(alert: AlertView) -> RenderableType:
    """One alert with its evidence."""
    alert = one_line_each(alert)
    lines = [*_about(alert)]
    if alert.evidence is not None:
        lines += _facts(alert.evidence, alert.metric)
    if alert.ended_at is not None:
        lines.append(Text.assemble(("Ended: ", "bold"), minute_text(alert.ended_at)))
    if alert.evidence is not None:
        lines += _details(alert.evidence)
    return Group(_title(alert), Padding(Group(*lines), (0, 0, 1, 2)))


def _facts(evidence: LinkedEvidence, metric: str) -> Iterator[Text]:
    if evidence.slices:
        parts = (
            f"{part.dimension} {part.value} ({100.0 * part.share:.0f} %)"
            for part in evidence.slices
        )
        yield Text.assemble(("Driven by: ", "bold"), ", ".join(parts))
    if evidence.missing is not None:
        yield Text.assemble(("Documents: ", "bold"), missing_text(evidence.missing))
    if evidence.topics:
        yield Text.assemble(("Topics: ", "bold"), topics_text(evidence.topics, metric))
    if text := lookup_text(evidence):
        yield Text.assemble(("Examples: ", "bold"), text)
    if shifts := mode_shifts(evidence.modes):
        yield Text.assemble(("Failure modes: ", "bold"), ", ".join(shifts))
    if evidence.runbook:
        yield Text.assemble(("Runbook: ", "bold"), evidence.runbook)


def _details(evidence: LinkedEvidence) -> Iterator[Text]:
    if evidence.worst:
        yield Text("Worst queries", "bold")
        for query in evidence.worst:
            yield Text(f"  {query.query or query.query_id}: {query.why}")
    if evidence.remedies:
        yield Text("What to try", "bold")
        for number, step in enumerate(evidence.remedies, 1):
            yield Text(f"  {number}. {step}")


def _title(alert: AlertView) -> Text:
    """First line: the news, or the name of an alert that has no evidence yet."""
    resolved = alert.state == "resolved"
    sentence = alert.evidence.sentence if alert.evidence is not None else ""
    text = clip(sentence, MOST_SENTENCE) or f"{alert.name} in {alert.pipeline}"
    style = "bold green" if resolved else _STYLES[alert.severity]
    return Text(f"Resolved: {text}" if resolved else text, style)


def _about(alert: AlertView) -> Iterator[Text]:
    if alert.evidence is not None and alert.evidence.detail:
        yield Text(alert.evidence.detail)
    facts: list[str] = [alert.name, alert.severity, alert.state.replace("_", " ")]
    if alert.fired_at is not None:
        word = "fired" if alert.state == "resolved" else "since"
        facts.append(f"{word} {minute_text(alert.fired_at)}")
    if alert.silenced_by:
        facts.append(silenced_text(alert.silenced_by))
    yield Text(", ".join(facts), "dim")
