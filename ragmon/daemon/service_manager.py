"""Messages to systemd from a unit of Type=notify: ready, alive, ending.

It restarts a process that says nothing for WatchdogSec, so nothing is said while a loop hangs that
a restart may help: the writer, the evaluation and their like, which fail /livez as well.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping

import structlog

from ragmon.loops import Loop, LoopOwner

_EVERY_S = 5.0
_LEAST_S = 0.1


class ServiceManager(LoopOwner):
    """Messages to the service manager that started this process."""

    def __init__(self, address: str, every_s: float, problems: Callable[[], list[str]]) -> None:
        """Make it.

        Args:
            address: of its datagram socket; `@` in front: an abstract one.
            every_s: between two signs of life.
            problems: sentences about loops that hang; none when all turn.
        """
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._every_s = every_s
        self._problems = problems
        self._reported: list[str] = []
        self._log = structlog.get_logger("service-manager")
        self.loop = Loop("service-manager", self._turn, self._log)

    def start(self) -> None:
        """Say that everything is restored and answers."""
        self._send("READY=1\nSTATUS=serving")
        self.loop.start()

    def stop(self) -> None:
        """Say that it ends."""
        self.loop.stop()
        self._send("STOPPING=1")

    def _turn(self) -> float:
        problems = self._problems()
        if not problems:
            self._send("WATCHDOG=1" + ("\nSTATUS=serving" if self._reported else ""))
        elif problems != self._reported:
            self._log.error("watchdog_withheld", problems=problems)
            self._send(f"STATUS={problems[0]}")
        self._reported = problems
        return self._every_s

    def _send(self, text: str) -> None:
        # A manager that is restarted itself may be away for a moment, or not read.
        with contextlib.suppress(OSError), _open() as sender:
            sender.sendto(text.encode(), self._address)


def build(
    problems: Callable[[], list[str]], environment: Mapping[str, str] | None = None
) -> tuple[ServiceManager, ...]:
    """The manager that started this process; nothing where none waits for messages.

    Args:
        problems: sentences about loops that hang.
        environment: variables; None takes the process's own.
    """
    environment = os.environ if environment is None else environment
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return ()
    watchdog_us = environment.get("WATCHDOG_USEC", "")
    every_s = int(watchdog_us) / 3e6 if watchdog_us.isdecimal() else _EVERY_S
    return (ServiceManager(address, max(_LEAST_S, min(_EVERY_S, every_s)), problems),)


def _open() -> socket.socket:
    return socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
