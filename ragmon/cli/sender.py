"""Posting batches to a running ragmon, until they are durable."""

import itertools
import threading
from collections.abc import Callable

import msgspec
import requests
from msgspec import Struct

from ragmon.api_schema import IngestAnswer
from ragmon.cli import remote
from ragmon.clock import Clock, SystemClock
from ragmon.errors import RemoteError
from ragmon.http_client import retry_after_s

_STRANGER_S = 15.0  # for an address where nobody has answered yet
_OUTAGE_S = 120.0
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0
_HINT = "Start `ragmon serve`, or name another address"


class Delivered(Struct):
    """What the answers said so far."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0


class Sender:
    """One connection; batches that ragmon cannot take now are sent again."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        clock: Clock | None = None,
        explain: Callable[[IngestAnswer], None] = lambda _: None,
        stop: threading.Event | None = None,
        say: Callable[[str], None] = lambda _: None,
        stranger_s: float = _STRANGER_S,
    ) -> None:
        self.session = requests.Session()
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"
        self.done = Delivered()
        self._url = url.rstrip("/")
        self._clock = clock or SystemClock()
        self._explain = explain
        self.stop = stop or threading.Event()
        self._say = say  # what keeps batches from being taken, once an outage
        self._patience_s = stranger_s
        self._trouble = ""

    def post(self, path: str, ndjson: bytes) -> None:
        """Send a batch.

        Raises:
            RemoteError: it was refused, ragmon stayed away, or ``stop`` was set meanwhile.
        """
        started = self._clock.monotonic()
        for attempt in itertools.count():
            answer = self._try(path, ndjson)
            if isinstance(answer, requests.Response):
                self._patience_s = _OUTAGE_S
                if answer.status_code in (200, 422):
                    self._count(msgspec.json.decode(answer.content, type=IngestAnswer))
                    return
                problem = f"answered {answer.status_code}: {remote.detail(answer)}"
                if answer.status_code not in (429, 502, 503, 504):
                    raise RemoteError(f"{self._url}{path} {problem}")
                trouble = f"{self._url} {problem}"
            else:
                trouble = f"no answer from {self._url} ({type(answer).__name__})"
            wait_s = _wait_s(answer, attempt, self._clock.now())
            self._wait(started, wait_s, trouble)

    def _wait(self, started: float, wait_s: float, trouble: str) -> None:
        """Before the next attempt.

        Raises:
            RemoteError: there is none.
        """
        tried_s = self._clock.monotonic() - started
        left_s = self._patience_s - tried_s
        if left_s <= 0:
            raise RemoteError(f"{trouble}, tried for {tried_s:.0f} s", hint=_HINT)
        if not self._trouble:
            self._trouble = trouble
            self._say(f"{trouble}; trying again for {self._patience_s:.0f} s. {_HINT}")
        if self.stop.wait(min(wait_s, left_s)):
            raise RemoteError("stopped before everything was delivered")

    def _try(self, path: str, ndjson: bytes) -> requests.Response | requests.RequestException:
        try:
            return self.session.post(
                self._url + path,
                data=ndjson,
                headers={"Content-Type": "application/x-ndjson"},
                timeout=(5.0, 60.0),
                allow_redirects=False,
            )
        except requests.RequestException as error:
            return error

    def _count(self, answer: IngestAnswer) -> None:
        self._trouble = ""
        self.done.accepted += answer.accepted
        self.done.duplicates += answer.duplicates
        self.done.rejected += answer.rejected_total or len(answer.rejected)
        self._explain(answer)


def _wait_s(
    answer: requests.Response | requests.RequestException, attempt: int, now: float
) -> float:
    """Seconds to wait: as told by Retry-After, else longer and longer."""
    asked_s = 0.0
    if isinstance(answer, requests.Response):
        asked_s = retry_after_s(answer.headers.get("Retry-After", ""), now)
    return min(asked_s or _FIRST_WAIT_S * 2.0 ** min(attempt, 9), _LONGEST_WAIT_S)
