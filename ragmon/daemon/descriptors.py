"""File descriptors: as many as the system allows, and a sign when there are none left."""

import errno
import os
import resource
from collections.abc import Callable

import structlog

_MOST = 65_536  # asked for; the hard limit may be lower
_OWN = 128  # for the store, logs, receivers and judges, beside the connections
_LEAST = 16  # connections, however few descriptors there are


def raise_limit() -> int:
    """Ask for as many file descriptors as the system allows; returns how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return _MOST if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most


def connection_limit(configured: int, descriptors: int) -> int:
    """Connections that leave file descriptors for everything else."""
    return max(_LEAST, min(configured, descriptors - _OWN))


def can_open() -> bool:
    """True if another file can be opened now."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True


class DescriptorWatch:
    """Look once a second whether a file can be opened; the server itself only drops connections."""

    def __init__(self, probe: Callable[[], bool] = can_open) -> None:
        self._probe = probe
        self._is_short = False
        self._log = structlog.get_logger("daemon")
        self.seconds = 0

    async def look(self) -> None:
        """Look once, and log when it begins and ends."""
        is_short = not self._probe()
        self.seconds += is_short
        if is_short and not self._is_short:
            self._log.error(
                "file_descriptors_exhausted",
                effect="new connections are dropped",
                remedy="raise the limit (ulimit -n, LimitNOFILE) or lower limits.connections",
            )
        elif self._is_short and not is_short:
            self._log.info("file_descriptors_available", exhausted_seconds=self.seconds)
        self._is_short = is_short
