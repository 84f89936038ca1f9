"""Show incidents: alerts that share a cause, with the cause, the symptoms and how long it took.

`--markdown` prints them for a review: what happened, when it began and was noticed, how many
bad queries it cost, what was notified to whom, and its alerts.
"""

import argparse
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from rich import box
from rich.table import Table

from ragmon.alerts.as_json import IncidentAlert, IncidentView
from ragmon.alerts.message import likelihood
from ragmon.alerts.sentences import length
from ragmon.api_schema import IncidentList
from ragmon.cli import remote, window_flags
from ragmon.cli.console import say, say_json
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.rich_output import standard_output
from ragmon.durations import minute_text
from ragmon.terminal import one_line_each

_NONE = "No incident fits."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add(
        "--state",
        choices=("open", "resolved", "all"),
        default="all",
        help="incidents to show (default all)",
    )
    window_flags.since_argument(parser, "7d", "the oldest end of those that are over")
    window_flags.pipeline_argument(parser)
    add("--limit", type=int, default=50, help="most incidents to show (default 50)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a page for a review")
    form.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Print the incidents."""
    asked = {"state": args.state, "since": args.since, "limit": str(args.limit)}
    if args.pipeline:
        asked["pipeline"] = args.pipeline
    path = f"/v1/incidents?{urlencode(asked)}"
    session = remote.session(args)
    incidents = remote.get(session, args.url, path, IncidentList).incidents
    if not incidents:
        check_pipeline(session, args.url, args.pipeline)
    if args.json:
        say_json(incidents)
        return 0
    incidents = one_line_each(incidents)
    if args.markdown:
        say(markdown(incidents))
    elif incidents:
        standard_output(markup=False).print(_table(incidents))
    else:
        say(_NONE)
    return 0


def markdown(incidents: Sequence[IncidentView]) -> str:
    """A page for a review."""
    if not incidents:
        return _NONE
    return "\n\n".join("\n".join(_section(incident)) for incident in incidents)


def _section(incident: IncidentView) -> Iterator[str]:
    yield f"## {_escaped(incident.headline)}"
    yield ""
    end = "still open" if incident.ended_at is None else minute_text(incident.ended_at)
    yield f"- Incident: `{incident.id}`, {incident.severity}, {incident.state}"
    yield f"- Began: {minute_text(incident.began_at)} (estimated)"
    noticed = length(max(0.0, incident.detected_at - incident.began_at))
    yield f"- Detected: {minute_text(incident.detected_at)}, after {noticed}"
    if incident.ended_at is None:
        yield f"- Ended: {end}"
    else:
        lasted = length(max(0.0, incident.ended_at - incident.began_at))
        yield f"- Ended: {end}, after {lasted}"
    yield f"- Cause: {_escaped(_cause(incident))}"
    if incident.bad_queries is not None:
        yield f"- Bad queries beyond expected: about {incident.bad_queries:,.0f}"
    yield ""
    yield from _notifications(incident)
    yield "| alert | severity | fired | named since | what |"
    yield "| --- | --- | --- | --- | --- |"
    for alert in incident.alerts:
        cells = (alert.name, alert.severity, _time(alert.fired_at), _notified(alert))
        yield f"| {' | '.join(cells)} | {_escaped(alert.sentence)} |"


def _notifications(incident: IncidentView) -> Iterator[str]:
    if not incident.notifications:
        yield "No notification was sent."
    else:
        yield "| notified | | severity | to | what |"
        yield "| --- | --- | --- | --- | --- |"
    for sent in incident.notifications:
        sinks = ", ".join(sent.sinks) or "no sink takes it"
        cells = (minute_text(sent.at), sent.change, sent.severity, _escaped(sinks))
        yield f"| {' | '.join(cells)} | {_escaped(sent.headline)} |"
    yield ""


def _table(incidents: Sequence[IncidentView]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("began", "ended", "severity", "what", "cause", "alerts"):
        table.add_column(name, overflow="fold")
    for incident in incidents:
        table.add_row(
            minute_text(incident.began_at),
            _time(incident.ended_at, "open"),
            incident.severity,
            incident.headline,
            _cause(incident),
            str(len(incident.alerts)),
        )
    return table


def _cause(incident: IncidentView) -> str:
    return likelihood(incident.cause)


def _notified(alert: IncidentAlert) -> str:
    if alert.notified_at is not None:
        return _time(alert.notified_at)
    if alert.silenced_by:
        return "silenced"
    return _escaped(f"explained by {alert.explained_by}" if alert.inhibited_by else "not named")


def _time(when: float | None, otherwise: str = "") -> str:
    return otherwise if when is None else minute_text(when)


def _escaped(text: str) -> str:
    """Text in which no character begins markup of a table or of HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
