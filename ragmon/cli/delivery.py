"""Posting batches to a running ragmon, until they are durable."""

import threading
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from msgspec import Struct

from ragmon.cli import remote
from ragmon.clock import Clock, SystemClock
from ragmon.errors import RemoteError

_ATTEMPTS = 30
_LONGEST_WAIT_S = 5.0


class Delivered(Struct):
    """What the answers said so far."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0


class Delivery:
    """One connection; batches that ragmon cannot take now are sent again."""

    def __init__(
        self,
        url: str,
        token: str,
        clock: Clock | None = None,
        explain: Callable[[dict[str, Any]], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> None:
        self.session = requests.Session()
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"
        self.done = Delivered()
        self._url = url.rstrip("/")
        self._clock = clock or SystemClock()
        self._explain = explain
        self.stop = stop or threading.Event()

    def post(self, path: str, ndjson: bytes) -> None:
        """Send a batch.

        Raises:
            RemoteError: it was refused, ragmon stayed away, or ``stop`` was set meanwhile.
        """
        for attempt in range(_ATTEMPTS):
            answer = self._try(path, ndjson)
            if answer is not None and answer.status_code in (200, 422):
                self._count(answer.json())
                return
            if answer is not None and answer.status_code not in (429, 502, 503, 504):
                problem = f"{answer.status_code}: {remote.detail(answer)}"
                raise RemoteError(f"{self._url}{path} answered {problem}")
            if self.stop.wait(_wait_s(answer, attempt, self._clock.now())):
                raise RemoteError("stopped before everything was delivered")
        raise RemoteError(f"{self._url} took no batch in {_ATTEMPTS} attempts")

    def _try(self, path: str, ndjson: bytes) -> requests.Response | None:
        try:
            return self.session.post(
                self._url + path,
                data=ndjson,
                headers={"Content-Type": "application/x-ndjson"},
                timeout=(5.0, 60.0),
                allow_redirects=False,
            )
        except requests.RequestException:
            return None

    def _count(self, answer: dict[str, Any]) -> None:
        self.done.accepted += answer["accepted"]
        self.done.duplicates += answer["duplicates"]
        self.done.rejected += answer.get("rejected_total", len(answer["rejected"]))
        self._explain(answer)


def _wait_s(answer: requests.Response | None, attempt: int, now: float) -> float:
    """Seconds to wait: as told by Retry-After, else longer and longer."""
    told = answer.headers.get("Retry-After", "") if answer is not None else ""
    if told.isdigit():
        return min(float(told), _LONGEST_WAIT_S)
    if told:
        try:
            return max(0.0, min(parsedate_to_datetime(told).timestamp() - now, _LONGEST_WAIT_S))
        except ValueError:
            pass
    return min(0.2 * 2.0**attempt, _LONGEST_WAIT_S)
