"""Checks of `ragmon doctor`: what one looked at, what it found, and how to mend it."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from ragmon.errors import RagmonError, RemoteError

Verdict = Literal["ok", "warning", "problem", "skipped"]


class HealthFinding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    area: str  # configuration, store, disk, clock, daemon, sources, sinks, judge or prometheus
    verdict: Verdict
    what: str
    remedy: str = ""  # empty where nothing is to be done


class HealthReport(Struct, frozen=True, kw_only=True):
    """Everything that was looked at."""

    version: str
    at: float  # unix seconds
    problems: int
    warnings: int
    findings: tuple[HealthFinding, ...]


class Area:
    """Findings of one area."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ok(self, what: str) -> HealthFinding:
        """Nothing is to be done."""
        return HealthFinding(area=self._name, verdict="ok", what=what)

    def warning(self, what: str, remedy: str) -> HealthFinding:
        """It works, but not as well as it could, or not for long."""
        return HealthFinding(area=self._name, verdict="warning", what=what, remedy=remedy)

    def problem(self, what: str, remedy: str) -> HealthFinding:
        """It does not work."""
        return HealthFinding(area=self._name, verdict="problem", what=what, remedy=remedy)

    def skipped(self, what: str, remedy: str = "") -> HealthFinding:
        """It could not be looked at."""
        return HealthFinding(area=self._name, verdict="skipped", what=what, remedy=remedy)


Check = Callable[[], Iterable[HealthFinding]]


def findings_of(checks: Iterable[tuple[str, Check]]) -> Iterator[HealthFinding]:
    """The findings of every check; one that fails is a finding itself, and stops no other."""
    for name, check in checks:
        area = Area(name)
        try:
            yield from check()
        except RemoteError as error:
            refused = error.status in (401, 403)
            yield area.skipped(*_parts(error)) if refused else area.problem(*_parts(error))
        except RagmonError as error:
            yield area.problem(*_parts(error))
        except OSError as error:
            yield area.problem(str(error), f"Make it readable for user {os.getuid()}")


def _parts(error: RagmonError) -> tuple[str, str]:
    """Message and remedy of an error; some say the remedy in their message."""
    return str(error.args[0]), error.hint
