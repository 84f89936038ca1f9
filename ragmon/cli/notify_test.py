"""Send a test alert through one of the configured sinks, and print what the receiver answered.

The alert is sent at once and not retried; it does not pass the outbox. It is resolved right
afterwards, unless the receiver does that by itself: Alertmanager does after four minutes.
"""

import argparse

from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, Evidence
from ragmon.alerts.notices import IncidentNotice, notify
from ragmon.cli import flags
from ragmon.cli.console import say, say_json
from ragmon.cli.results import AcceptedNotice, NotifyTest
from ragmon.clock import SystemClock
from ragmon.daemon.notify.routing import Route, build_routes
from ragmon.detectors import AlertKey, Finding, Severity, StreamKey
from ragmon.errors import SettingsError
from ragmon.sinks import Repeating

_SENTENCE = "test alert sent by `ragmon notify-test`: nothing is wrong"
_NEVER_S = float("inf")
_TRIES = ("Nothing: that this arrived shows that the sink works",)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "sink", metavar="SINK", help="name of the sink, or its kind if it has no name"
    )
    parser.add_argument(
        "--severity",
        choices=SEVERITIES,
        default="warning",
        help="severity of the alert (default warning)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} SINK [--severity SEVERITY] [--json] [--config FILE] [--SETTING VALUE ...]"
    )


def run(args: argparse.Namespace) -> int:
    """Send; a refusal is an error that quotes the receiver's answer."""
    settings = flags.settings(args).settings
    clock = SystemClock()
    route = _named(args.sink, build_routes(settings, clock, settings.port))
    accepted = []
    for notice in test_notices(args.severity, clock.now()):
        if notice.status == "resolved" and isinstance(route.sink, Repeating):
            break
        route.sink.deliver(notice)
        accepted.append(AcceptedNotice(change=notice.change, alert=notice.alert.name, id=notice.id))
        if not args.json:
            say(f"{route.name}: {notice.change} {notice.alert.name} ({notice.id}) was accepted")
    if args.json:
        say_json(NotifyTest(sink=route.name, accepted=accepted))
    return 0


def test_notices(severity: Severity, now: float) -> tuple[IncidentNotice, ...]:
    """An incident of one test alert that opens, and its end."""
    key = AlertKey("test", StreamKey("ragmon-test", "hit"))
    begun = Alert(
        key=key,
        name="RagmonTest",
        state="firing",
        severity=severity,
        began_at=now,
        fired_at=now,
        bad_at=now,
        incident_id=f"test-{int(now)}",
        finding=Finding(alert=key, status="bad", severity=severity),
        evidence=Evidence(sentence=_SENTENCE, remedies=_TRIES),
    )
    over = replace(begun, state="resolved", ended_at=now)
    opened = notify((), (begun,), (), now, _NEVER_S)
    return (*opened.notices, *notify(opened.incidents, (), (over,), now, _NEVER_S).notices)


def _named(name: str, routes: tuple[Route, ...]) -> Route:
    for route in routes:
        if route.name == name:
            return route
    known = ", ".join(route.name for route in routes)
    hint = f"Use one of {known}" if known else "Configure it under `sinks`"
    raise SettingsError(f"there is no sink called {name!r}", hint=hint)
