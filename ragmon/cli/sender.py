"""Sends batches to a running daemon until they are stored."""

import itertools
import threading
from collections.abc import Callable

import msgspec
import requests
from msgspec import Struct

from ragmon.api_schema import IngestAnswer
from ragmon.cli import remote
from ragmon.cli.connection import reason_of
from ragmon.clock import Clock, SystemClock
from ragmon.errors import RemoteError
from ragmon.http_client import retry_after_s

_FIRST_CONTACT_S = 15.0  # of retries for an address that has never answered
_OUTAGE_S = 120.0  # of retries for one that has
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0
_HINT = "Start `ragmon serve`, or pass another address"


class Delivered(Struct):
    """Records of all answers so far."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0


class SendListener(Struct, frozen=True):
    """Callbacks of a sender."""

    answered: Callable[[IngestAnswer], None] = lambda _: None  # with every answer to a batch
    delayed: Callable[[str], None] = lambda _: None  # with the reason, once per outage


class Sender:
    """Sends batches one at a time; those that ragmon cannot take now are sent again."""

    def __init__(
        self,
        url: str,
        session: requests.Session,
        *,
        stop: threading.Event | None = None,
        listener: SendListener | None = None,
        first_contact_s: float = _FIRST_CONTACT_S,
        clock: Clock | None = None,
    ) -> None:
        """Make one; nothing is sent yet.

        Args:
            url: of the daemon.
            session: with the token, see ``remote.bulk_session``.
            stop: ends the retries once it is set.
            listener: told of answers and outages.
            first_contact_s: seconds of retries before the first answer.
            clock: for the retries.
        """
        self.session = session
        self.stop = stop or threading.Event()
        self.done = Delivered()
        self._url = url.rstrip("/")
        self._clock = clock or SystemClock()
        self._listener = listener or SendListener()
        self._retry_s = first_contact_s
        self._trouble = ""

    def post(self, path: str, ndjson: bytes) -> None:
        """Send a batch.

        Raises:
            RemoteError: it was refused, ragmon did not answer in time, or ``stop`` was set.
        """
        started = self._clock.monotonic()
        for attempt in itertools.count():
            answer = self._try(path, ndjson)
            if isinstance(answer, requests.Response):
                self._retry_s = _OUTAGE_S
                if answer.status_code in (200, 422):
                    self._count(msgspec.json.decode(answer.content, type=IngestAnswer))
                    return
                why = remote.detail(answer.content, answer.reason)
                problem = f"answered {answer.status_code}: {why}"
                if answer.status_code not in (429, 502, 503, 504):
                    raise RemoteError(f"{self._url}{path} {problem}", status=answer.status_code)
                trouble = f"{self._url} {problem}"
            else:
                trouble = f"no answer from {self._url} ({reason_of(answer)})"
            wait_s = _wait_s(answer, attempt, self._clock.now())
            self._wait(started, wait_s, trouble)

    def _wait(self, started: float, wait_s: float, trouble: str) -> None:
        """Wait before the next attempt.

        Raises:
            RemoteError: the time for retries is over, or ``stop`` is set.
        """
        tried_s = self._clock.monotonic() - started
        left_s = self._retry_s - tried_s
        if left_s <= 0:
            raise RemoteError(f"{trouble}, tried for {tried_s:.0f} s", hint=_HINT)
        if not self._trouble:
            self._trouble = trouble
            self._listener.delayed(f"{trouble}; trying again for {self._retry_s:.0f} s. {_HINT}")
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
                verify=self.session.verify,  # or REQUESTS_CA_BUNDLE would overrule it
            )
        except requests.RequestException as error:
            return error

    def _count(self, answer: IngestAnswer) -> None:
        self._trouble = ""
        self.done.accepted += answer.accepted
        self.done.duplicates += answer.duplicates
        self.done.rejected += answer.rejected_total or len(answer.rejected)
        self._listener.answered(answer)


def _wait_s(
    answer: requests.Response | requests.RequestException, attempt: int, now: float
) -> float:
    """Seconds to wait: by Retry-After, else doubled at each attempt."""
    asked_s = 0.0
    if isinstance(answer, requests.Response):
        asked_s = retry_after_s(answer.headers.get("Retry-After", ""), now)
    return min(asked_s or _FIRST_WAIT_S * 2.0 ** min(attempt, 9), _LONGEST_WAIT_S)
