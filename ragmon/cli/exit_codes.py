"""Exit status of all commands: one table, which the reference shows."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from ragmon.errors import RagmonError, RemoteError


class ExitCode(IntEnum):
    """Status with which a command ends."""

    OK = 0
    FINDING = 1
    UNUSABLE = 2
    UNREACHABLE = 3
    FORBIDDEN = 4
    DEFECT = 70
    FORCED = 71
    INTERRUPTED = 130


MEANINGS: Mapping[ExitCode, str] = MappingProxyType(
    {
        ExitCode.OK: "done, and nothing is wrong",
        ExitCode.FINDING: (
            "done, and something is wrong with what was looked at: a regression, a missed limit, "
            "a damaged store, rejected records, a problem that `ragmon doctor` found"
        ),
        ExitCode.UNUSABLE: "arguments, settings, files, data or the store cannot be used",
        ExitCode.UNREACHABLE: (
            "the daemon or another server did not answer, or answered that it cannot now"
        ),
        ExitCode.FORBIDDEN: "the token was refused, or may not do this",
        ExitCode.DEFECT: "a defect of ragmon: please report the traceback",
        ExitCode.FORCED: "`ragmon serve` ended by force, since something held up its end",
        ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    }
)
"""Meaning of each status, for people."""

_FORBIDDEN = (401, 403)
_NOT_NOW = (408, 425, 429)


def code_of(error: RagmonError) -> ExitCode:
    """The status for an error that ended a command."""
    if not isinstance(error, RemoteError):
        return ExitCode.UNUSABLE
    if error.status in _FORBIDDEN:
        return ExitCode.FORBIDDEN
    asked_wrongly = 400 <= error.status < 500 and error.status not in _NOT_NOW
    return ExitCode.UNUSABLE if asked_wrongly else ExitCode.UNREACHABLE
