"""A Python function as judge, in a process of its own.

``python -m ragmon.judges.custom.worker OPTIONS``, options as JSON; it speaks as
``ragmon.judges.worker`` does. Each call has a time limit. What a function raises, returns off its
scale, or takes too long for is a failure with a reason, never a score.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from types import FrameType
from typing import Any

from ragmon.errors import RagmonError
from ragmon.judges.custom.options import Options, score_of
from ragmon.judges.grounding import GroundingResult
from ragmon.judges.worker import AnswerToRead, run

TIMEOUT, RAISED, OFF_SCALE, NOT_APPLICABLE = "timeout", "raised", "off_scale", "not_applicable"
"""Reasons why an answer has no score."""

SET_ASIDE = frozenset({TIMEOUT, RAISED, OFF_SCALE})
"""Those that are defects: the answer goes to the quarantine."""

Function = Callable[..., Any]
_MOST_NOTE = 500  # characters of an error


class EntryError(RagmonError):
    """The function of a custom judge cannot be imported."""


class _TimeLimitError(BaseException):
    """Not an Exception, so that a function's own handlers do not swallow it."""


class FunctionBatches:
    """A function, an answer at a time."""

    def __init__(self, function: Function, options: Options, version: str) -> None:
        self._function = function
        self._options = options
        self.version = version

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""
        return [self._result(case) for case in cases]

    def _result(self, case: AnswerToRead) -> GroundingResult:
        try:
            with _time_limit(self._options.timeout_s):
                value = self._function(case.query, case.answer, case.chunks)
        except _TimeLimitError:
            return self._failed(TIMEOUT, f"took longer than {self._options.timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 - of somebody else's function
            return self._failed(RAISED, f"{type(error).__name__}: {error}")
        if value is None:
            return self._failed(NOT_APPLICABLE, "")
        try:
            score = score_of(value, self._options.effective_scale)
        except ValueError as error:
            return self._failed(OFF_SCALE, str(error))
        return GroundingResult(score, None, (), (), self.version)

    def _failed(self, reason: str, note: str) -> GroundingResult:
        return GroundingResult(None, reason, (), (), self.version, note[:_MOST_NOTE])


def load(options: Options) -> FunctionBatches:
    """The judge.

    Raises:
        EntryError: the module or the function is not there.
    """
    module_name, _, name = (options.entry or "").partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise EntryError(
            f"judge.custom {options.name}: cannot import {module_name}: "
            f"{type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise EntryError(f"judge.custom {options.name}: {module_name} has no function {name}")
    return FunctionBatches(function, options, _version(module_name, options))


def _version(module: str, options: Options) -> str:
    """The entry, with the version of the distribution that has it."""
    package = module.partition(".")[0]
    distributions = metadata.packages_distributions().get(package, ())
    versions = [metadata.version(name) for name in distributions]
    return " ".join([options.entry or "", *versions[:1]])


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise in the block once it has run for so long, and after one that goes on all the same."""
    is_over = False

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal is_over
        is_over = True
        raise _TimeLimitError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if is_over:
        raise _TimeLimitError


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(os.curdir))
    settings = Options.model_validate_json(sys.argv[1])
    run(lambda: load(settings), settings.max_cpu)
