"""The demo's day on a fast clock: a real daemon, asked and scraped step by step."""

import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import msgspec
import requests

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.serve import Daemon
from ragmon.demo.application import build_application
from ragmon.demo.history import LoggedBatch, history, plan_for
from ragmon.demo.traffic import DAY_S
from ragmon.errors import RagmonError
from tests.support import llm_server

STEP_S = 300.0  # from scrape to scrape
MINUTE_S = 60.0
QUERIES = 12_000  # a day
TARGET = 'job="ragmon",instance="ragmon:8321"'
_OPENMETRICS = "application/openmetrics-text;version=1.0.0"
_SETTINGS = {
    "port": 0,
    "windows": "1h",
    "slices": "tenant,channel,kind",
    "judge.grounding.max_cpu": 1,
    "evaluate_every": "200ms",
    "detectors.lag": "6m",  # verdicts come within a step of the clock
    "judge.every": "1s",
}
_PRICES = {"tiny": {"prompt": 0.5, "completion": 1.5}}  # US dollars for a million tokens
_UNREAD = 'ragmon_judge_queue_length{judge="grounding"}'
_TIMEOUT_S = 60.0


class FastClock:
    """Time of day that moves only by ``move_to``; waits take real time."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._real = SystemClock()

    def now(self) -> float:
        """Unix seconds, as last set."""
        return self._now

    def monotonic(self) -> float:
        """Real seconds."""
        return self._real.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, in real seconds."""
        self._real.sleep(seconds)

    def move_to(self, moment: float) -> None:
        """Set the time of day, never back."""
        self._now = max(self._now, moment)


@contextmanager
def daemon(folder: Path, clock: FastClock, model: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """A daemon on this clock: its URL, and a call that evaluates the minutes that are over.

    By itself it would do that every real second, and miss most of a day that takes minutes.
    A sample of the answers is judged by the model at this URL.
    """
    llm = {"base_url": model, "prices": _PRICES}
    settings = {**_SETTINGS, "data_dir": str(folder / "data"), "judge.llm": llm}
    served = Daemon(load(None, settings, {}).settings, clock)
    ready = threading.Event()
    thread = threading.Thread(target=served.run, args=(lambda _: ready.set(),))
    thread.start()
    try:
        if not ready.wait(_TIMEOUT_S):
            raise RagmonError("the daemon did not start")
        yield served.url, served._alerting.turn
    finally:
        served.stop()
        thread.join()


class Recorder:
    """Moves the clock, sends, and writes down what a scrape would have stored."""

    def __init__(self, url: str, clock: FastClock, judge: Callable[[], None], out: TextIO) -> None:
        self._url = url
        self._judge = judge
        self._clock = clock
        self._out = out
        self._session = requests.Session()

    def play(self, batches: Iterable[LoggedBatch], start: float, end: float) -> None:
        """Send the batches and scrape every step from ``start`` to ``end`` (unix seconds)."""
        self._settled(start)
        due = start + STEP_S
        for batch in batches:
            until = min(_ends(batch), end)
            while due <= until:
                self._scrape_at(due)
                due += STEP_S
            self._move_to(until)
            self._send("/v1/queries", batch.queries)
            self._send("/v1/feedback", batch.feedback)
        while due <= end:
            self._scrape_at(due)
            due += STEP_S

    def promote(self, name: str) -> None:
        """Make the last day what later traffic is compared with."""
        body = {"from": "1d", "promote": True}
        answer = self._session.put(f"{self._url}/v1/baselines/{name}", json=body, timeout=60)
        answer.raise_for_status()

    def _send(self, path: str, records: Sequence[msgspec.Struct]) -> None:
        if records:
            body = b"\n".join(map(msgspec.json.encode, records))
            media = {"content-type": "application/x-ndjson"}
            answer = self._session.post(self._url + path, data=body, headers=media, timeout=30)
            answer.raise_for_status()

    def _move_to(self, moment: float) -> None:
        """Minute by minute, each of them judged."""
        while (minute := (self._clock.now() // MINUTE_S + 1) * MINUTE_S) <= moment:
            self._clock.move_to(minute)
            self._judge()
        self._clock.move_to(moment)

    def _scrape_at(self, moment: float) -> None:
        self._move_to(moment)
        self._settled(moment)
        started = self._clock.monotonic()
        page = self._page()
        took = self._clock.monotonic() - started
        lines = [line for line in page.splitlines() if line and not line.startswith("#")]
        own = ("up 1", f"scrape_duration_seconds {took}", f"scrape_samples_scraped {len(lines)}")
        for line in (*own, *lines):
            self._out.write(stamped(line, moment))

    def _page(self) -> str:
        accept = {"accept": _OPENMETRICS}
        return self._session.get(f"{self._url}/metrics", headers=accept, timeout=30).text

    def _settled(self, moment: float) -> None:
        """Wait until the judge has read everything and the windows are evaluated."""
        deadline = self._clock.monotonic() + _TIMEOUT_S
        while self._clock.monotonic() < deadline:
            page = self._page()
            evaluated = _value(page, "ragmon_evaluation_timestamp_seconds")
            if evaluated >= moment and not _value(page, _UNREAD):
                return
            self._clock.sleep(0.02)
        raise RagmonError(f"the daemon did not come to rest at {moment:.0f}")


def record(folder: Path, now: float, queries: int = QUERIES) -> Path:
    """Two days up to ``now`` as OpenMetrics with times; incidents are in the second alone.

    Args:
        folder: for the daemon's data and the file.
        now: unix seconds at the end.
        queries: in each day.
    """
    start, noon = now - 2 * DAY_S, now - DAY_S
    clock = FastClock(start)
    application = build_application(SystemClock())
    path = folder / "scraped.txt"
    with (
        llm_server.serving() as model,
        daemon(folder, clock, model.url) as (url, judge),
        path.open("w", encoding="utf-8") as out,
    ):
        recorder = Recorder(url, clock, judge, out)
        plan = plan_for(application, now=now)
        batches = list(history(application, plan, queries=queries, batch=5, days=2))
        recorder.play([batch for batch in batches if _ends(batch) <= noon], start, noon)
        recorder.promote("calm-day")
        recorder.play([batch for batch in batches if _ends(batch) > noon], noon, now)
        out.write("# EOF\n")
    return path


def _ends(batch: LoggedBatch) -> float:
    """Time of its last query, unix seconds; a batch of late ratings alone comes last."""
    return batch.queries[-1].timestamp if batch.queries else math.inf


def stamped(line: str, moment: float) -> str:
    """A sample with the labels of its target and the time of the scrape; exemplars go."""
    series, _, value = line.partition(" # {")[0].rpartition(" ")
    if series.endswith("}"):
        return f"{series[:-1]},{TARGET}}} {value} {moment:.0f}\n"
    return f"{series}{{{TARGET}}} {value} {moment:.0f}\n"


def _value(page: str, metric: str) -> float:
    match = re.search(rf"(?m)^{re.escape(metric)} (\S+)$", page)
    return float(match[1]) if match else 0.0
