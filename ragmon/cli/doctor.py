"""Look at everything that ragmon needs, and say what is wrong and how to mend it.

It looks at the configuration, store, disk, clock, the daemon itself, its sources, sinks and judges,
and at Prometheus' view of it, and changes nothing. --bundle writes what it found, with settings and
metrics, into a file for a support ticket; secrets, queries and answers are not in it. Exit status
1: there is a problem.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ragmon import __version__
from ragmon.cli import check_config, flags, local_checks, remote
from ragmon.cli.connection import EXAMPLE_URL, Connection
from ragmon.cli.console import say, say_json, warn
from ragmon.cli.daemon_checks import DaemonChecks
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.health_checks import Area, Check, HealthFinding, HealthReport, findings_of
from ragmon.cli.prometheus_checks import prometheus
from ragmon.cli.support_bundle import write_bundle
from ragmon.clock import Clock, SystemClock
from ragmon.config import Loaded
from ragmon.errors import RagmonError, SettingsError

_SIGNS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM", "skipped": "skipped"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [--url URL] [--prometheus URL] [--json] [--bundle FILE] [--config FILE]"
        " [--SETTING VALUE ...]"
    )
    remote.arguments(parser, default=None)
    add = parser.add_argument
    add("--prometheus", metavar="URL", help="Prometheus to ask, such as http://localhost:9090")
    add("--bundle", type=_archive, metavar="FILE", help="write a .tar.gz for a support ticket")
    add("--json", action="store_true", help="print JSON instead of lines")


def _archive(text: str) -> Path:
    if not text.endswith((".tar.gz", ".tgz")):
        raise argparse.ArgumentTypeError(f"{text!r} would be a .tar.gz; name it {text}.tar.gz")
    return Path(text)


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Look at everything and print it."""
    clock = clock or SystemClock()
    loaded, findings = _loaded(args)
    url = args.url or _own_url(loaded)
    daemon = DaemonChecks(remote.session(args), url, clock)
    findings += findings_of(_local(loaded, clock))
    findings += findings_of(_remote(daemon, loaded))
    findings += findings_of([("prometheus", partial(_prometheus, args.prometheus, url))])
    verdicts = [finding.verdict for finding in findings]
    report = HealthReport(
        version=__version__,
        at=clock.now(),
        problems=verdicts.count("problem"),
        warnings=verdicts.count("warning"),
        findings=tuple(findings),
    )
    if args.json:
        say_json(report)
    else:
        _print(report)
    if args.bundle is not None:
        rows = [] if loaded is None else check_config.setting_rows(loaded)
        write_bundle(args.bundle, report, rows, _metrics(daemon))
        warn(f"{args.bundle}: read it before you send it; it names pipelines, hosts and files")
    return ExitCode.FINDING if report.problems else ExitCode.OK


def _loaded(args: argparse.Namespace) -> tuple[Loaded | None, list[HealthFinding]]:
    """The settings, or the problem that there are none."""
    try:
        return flags.settings(args), []
    except SettingsError as error:
        remedy = error.hint or "`ragmon check-config` explains every setting"
        return None, [Area("configuration").problem(str(error.args[0]), remedy)]


def _own_url(loaded: Loaded | None) -> str:
    """Address of the daemon that has these settings."""
    if loaded is None:
        return EXAMPLE_URL
    settings = loaded.settings
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - not bound
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    scheme = "http" if settings.tls.cert_file is None else "https"
    return f"{scheme}://{shown}:{settings.port}"


def _local(loaded: Loaded | None, clock: Clock) -> Iterator[tuple[str, Check]]:
    if loaded is not None:
        settings = loaded.settings
        yield "configuration", partial(local_checks.configuration, settings, clock)
        yield "store", partial(local_checks.store, settings)
        yield "disk", partial(local_checks.disk, settings)


def _remote(daemon: DaemonChecks, loaded: Loaded | None) -> Iterator[tuple[str, Check]]:
    yield "daemon", daemon.daemon
    if daemon.answered:  # else the same would be said of every area
        yield "clock", daemon.clock
        yield "sources", daemon.sources
        configured = None if loaded is None else len(loaded.settings.sinks)
        yield "sinks", partial(daemon.sinks, configured)
        yield "judge", daemon.judge


def _prometheus(url: str | None, daemon_url: str) -> Iterator[HealthFinding]:
    if url is None:
        hint = "Name it with --prometheus, and its view of ragmon is looked at too"
        yield Area("prometheus").skipped("not asked", hint)
    else:
        yield from prometheus(Connection({}), url, daemon_url)


def _metrics(daemon: DaemonChecks) -> str:
    try:
        return daemon.metrics
    except RagmonError as error:
        return f"# {error}\n"


def _print(report: HealthReport) -> None:
    width = max(len(finding.area) for finding in report.findings)
    for finding in report.findings:
        say(f"{_SIGNS[finding.verdict]:<8} {finding.area:<{width}}  {finding.what}")
        if finding.remedy:
            say(f"{'':<{width + 11}}{finding.remedy}.")
    say(f"{_counted(report.problems, 'problem')}, {_counted(report.warnings, 'warning')}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
