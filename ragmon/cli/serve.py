"""Run the daemon: receive logged queries, serve metrics and reports, send alerts."""

import argparse
import os

from ragmon.cli import flags
from ragmon.clock import SystemClock
from ragmon.daemon import malloc
from ragmon.logs import configure


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    os.umask(0o077)  # the store holds questions and answers of users
    malloc.share(os.environ)
    from ragmon.daemon.serve import Daemon  # noqa: PLC0415 - other commands start faster without
    from ragmon.daemon.standby import take_place  # noqa: PLC0415

    settings = flags.settings(args).settings
    configure(settings.log.format, settings.log.level)
    clock = SystemClock()
    if settings.replica.role == "worker":
        from ragmon.daemon.worker import Worker  # noqa: PLC0415 - as above

        Worker(settings, clock).run()
    elif not settings.replica.standby:
        Daemon(settings, clock).run()
    elif place := take_place(settings, clock):
        Daemon(settings, clock, place).run()
    return 0
