"""Rights of whoever sends a request: the pipelines they may use, and the rates they may send at."""

import math
import threading
from collections.abc import Callable, Sequence

from ragmon.asgi import Problem

_BURST_S = 10.0  # a sender that was idle may be this far ahead of its rate
_MOST_REMEMBERED = 10_000  # names of pipelines


class Pipelines:
    """The pipelines that a token may write or read, by names in which ``*`` stands for any text."""

    def __init__(self, globs: Sequence[str]) -> None:
        self.globs = tuple(globs)
        self._remembered: dict[str, bool] = {}

    def __call__(self, pipeline: str) -> bool:
        """True for a pipeline that may be used."""
        allowed = self._remembered.get(pipeline)
        if allowed is None:
            allowed = any(matches(glob, pipeline) for glob in self.globs)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[pipeline] = allowed
        return allowed

    def __str__(self) -> str:
        return ", ".join(self.globs)


def matches(glob: str, name: str) -> bool:
    """True if a name is what a glob says; in linear time, since the name may be anybody's."""
    first, *middle = glob.split("*")
    if not middle:
        return name == glob
    last = middle.pop()
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in middle:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


class TokenBucket:
    """A rate with room for bursts of ten seconds' worth.

    Something passes while the balance is positive and is charged in full, so that a batch larger
    than the burst passes as well; it is paid for by waiting longer afterwards.
    """

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self.per_second = per_second
        self._burst = max(1.0, per_second * _BURST_S)
        self._balance = self._burst
        self._monotonic = monotonic
        self._filled_at = monotonic()
        self._lock = threading.Lock()  # gRPC has threads of its own

    def charge(self, amount: float) -> None:
        """Take from the balance, below zero if need be."""
        with self._lock:
            self._fill()
            self._balance -= amount

    def wait_s(self) -> float:
        """Seconds until the balance is positive; 0: now."""
        with self._lock:
            self._fill()
            return 0.0 if self._balance > 0.0 else max(1e-3, -self._balance / self.per_second)

    def _fill(self) -> None:
        now = self._monotonic()
        gained = (now - self._filled_at) * self.per_second
        self._balance = min(self._burst, self._balance + gained)
        self._filled_at = now


class Permit:
    """Rights of one token, as those need them that answer its requests."""

    def __init__(
        self,
        name: str,
        pipelines: Pipelines | None = None,
        records: TokenBucket | None = None,
        *,
        is_admin: bool = False,
    ) -> None:
        """Make a permit.

        Args:
            name: of the token.
            pipelines: that it may use; None: all.
            records: the rate at which it may send them; None: any.
            is_admin: it may do everything.
        """
        self.name = name
        self.is_admin = is_admin
        self.pipelines = pipelines
        self.records = records

    def check_all(self) -> None:
        """Check that every pipeline may be used.

        Raises:
            Problem: 403.
        """
        if self.pipelines is not None:
            raise self.refusal("this answer is about every pipeline")

    def refusal(self, why: str) -> Problem:
        """403, since a pipeline may not be used."""
        detail = f"token {self.name!r} may use the pipelines {self.pipelines} only; {why}"
        return Problem(403, detail, reason="pipeline_forbidden")

    def charge(self, records: int) -> None:
        """Count records that were sent; when they were too many, the next request is refused."""
        if self.records is not None:
            self.records.charge(records)


ANONYMOUS = Permit("anonymous", is_admin=True)
"""Of everybody, where no tokens are configured: without limits."""


def whole_seconds(wait_s: float) -> int:
    """Seconds for Retry-After: not before the wait is over."""
    return max(1, math.ceil(wait_s))
