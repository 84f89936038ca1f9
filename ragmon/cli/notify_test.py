"""Send a test alert through one of the configured sinks, and say what the receiver answered.

It goes out at once and only once, beside the outbox. Its end follows, unless the receiver ends it
by itself: Alertmanager does so after four minutes.
"""

import argparse

from msgspec.structs import replace

from ragmon.alerts import SEVERITIES, Alert, AlertEvent, Evidence, event
from ragmon.cli import flags
from ragmon.clock import SystemClock
from ragmon.daemon.notify.routing import Route, build_routes
from ragmon.detectors import AlertKey, Finding, Severity, StreamKey
from ragmon.errors import SettingsError
from ragmon.sinks import Repeating

NAME = "notify-test"
HELP = "send a test alert through a sink"

_SENTENCE = "This is a test by `ragmon notify-test`: nothing is wrong"
_TRIES = ("Nothing: whoever reads this knows that the sink works",)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("sink", metavar="SINK", help="name of a sink, or its kind if unnamed")
    parser.add_argument(
        "--severity", choices=SEVERITIES, default="warning", help="of the alert (default warning)"
    )
    flags.arguments(parser)
    parser.usage = f"{parser.prog} SINK [--severity SEVERITY] [--config FILE] [--SETTING VALUE ...]"


def run(args: argparse.Namespace) -> int:
    """Send; a refusal is an error with what the receiver said."""
    settings = flags.settings(args).settings
    clock = SystemClock()
    route = _named(args.sink, build_routes(settings, clock, settings.port))
    for each in test_events(args.severity, clock.now()):
        if each.change == "resolved" and isinstance(route.sink, Repeating):
            break
        route.sink.deliver(each)
        print(f"{route.name}: {each.change} {each.alert.name} ({each.id}) was accepted")
    return 0


def test_events(severity: Severity, now: float) -> tuple[AlertEvent, AlertEvent]:
    """The beginning of an alert that is about nothing, and its end."""
    key = AlertKey("test", StreamKey("ragmon-test", "hit"))
    begun = Alert(
        key=key,
        name="RagmonTest",
        state="firing",
        severity=severity,
        began_at=now,
        fired_at=now,
        bad_at=now,
        notified_at=now,
        finding=Finding(alert=key, status="bad", severity=severity),
        evidence=Evidence(sentence=_SENTENCE, remedies=_TRIES),
    )
    over = replace(begun, state="resolved", ended_at=now)
    return event("firing", begun, now, notify=True), event("resolved", over, now, notify=True)


def _named(name: str, routes: tuple[Route, ...]) -> Route:
    for route in routes:
        if route.name == name:
            return route
    known = ", ".join(route.name for route in routes)
    hint = f"Use one of {known}" if known else "Configure it under `sinks`"
    raise SettingsError(f"there is no sink called {name!r}", hint=hint)
