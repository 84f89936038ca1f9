"""Topics that drive an alert: what the queries that fail since its change ask about."""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragmon import privacy
from ragmon.alerts import Alert, DrivingTopic
from ragmon.clock import Clock
from ragmon.daemon.alerting.worst_queries import alert_members
from ragmon.detectors.losses import LossMap
from ragmon.pipeline import Pipeline, Privacy
from ragmon.queries.blocks import current
from ragmon.queries.topic_blocks import BlockQuestions, questions_of
from ragmon.stores import Reader
from ragmon.topics.driving import asked_queries, drivers
from ragmon.windows.series import VERSION

METRICS = ("zero_result", "hit", "low_score", "uncited", "refusal", "positive_feedback")
"""Of alerts that topics may drive."""

MOST_S = 5.0
"""Time that one search may take, over all its turns; then what was read must do."""

_MOST_QUERIES = 8_000  # before the change, and as many since
_BEFORE_S = 86_400.0  # before the change, that is looked at


class _TurnOverError(Exception):
    """The turn is over, or the search."""


class TopicLookup(NamedTuple):
    """Outcome for one alert."""

    topics: tuple[DrivingTopic, ...] = ()
    state: Literal["waiting", "done", "part"] = "done"


class _TopicReading:
    """A search under way."""

    def __init__(self, alert: Alert) -> None:
        self.episode = alert.episode
        self.since, self.until = alert.span
        self.read: set[int] = set()  # blocks, by their first sequence number
        self.spent_s = 0.0
        self.texts: list[str | None] = []
        self.askers: list[int] = []
        self.is_since: list[bool] = []
        self.fails: list[bool] = []

    def wants(self, first: float, last: float) -> bool:
        """True for a block of which more queries are wanted.

        Args:
            first: unix seconds of its oldest record.
            last: of its newest.
        """
        since = sum(self.is_since)
        wants_since = since < _MOST_QUERIES and last >= self.since
        wants_before = len(self.is_since) - since < _MOST_QUERIES and first < self.since
        return wants_since or wants_before


class DrivingTopicSearch:
    """Looks them up beside the writer, in turns, one alert after the other."""

    def __init__(
        self, reader: Callable[[], Reader], pipeline: Pipeline, texts: Privacy, clock: Clock
    ) -> None:
        self._reader = reader
        self._pipeline = pipeline
        self._texts = texts
        self._clock = clock
        self._losses = LossMap(pipeline.columns)
        self._search: _TopicReading | None = None

    def find(self, alert: Alert, has_time: Callable[[], bool]) -> TopicLookup:
        """Those of an alert, or that the search for them goes on.

        Queries since the change are compared with those of a day before it; those of a version
        with the ones of other versions at the same time.

        Args:
            alert: that they may drive.
            has_time: false once the turn is over; it lasts one block longer at most, or the
                half second that topics take to be found.
        """
        is_about = alert.key.stream.metric in METRICS and alert.key.kind != "no_data"
        if not is_about or self._texts == "drop":
            return TopicLookup()
        search = self._search
        if search is None or search.episode != alert.episode:
            search = self._search = _TopicReading(alert)
        started = self._clock.monotonic()
        most = started + MOST_S - search.spent_s
        done = self._read(search, alert, lambda: has_time() and self._clock.monotonic() < most)
        search.spent_s += self._clock.monotonic() - started
        if not done and search.spent_s < MOST_S:
            return TopicLookup(state="waiting")
        self._search = None
        return TopicLookup(self._driving(search), "done" if done else "part")

    def _driving(self, search: _TopicReading) -> tuple[DrivingTopic, ...]:
        texts = search.texts
        if self._texts == "redact":
            texts = [text and privacy.redact_text(text) for text in texts]
        driving = drivers(asked_queries(texts, search.is_since, search.fails, search.askers))
        return tuple(
            DrivingTopic(
                words=driver.words,
                of_failing=driver.of_failing,
                of_queries=driver.of_queries,
                failing=driver.failing,
            )
            for driver in driving
        )

    def _read(self, search: _TopicReading, alert: Alert, has_time: Callable[[], bool]) -> bool:
        """Take in further blocks; True when enough were read, or all."""
        is_version = alert.key.stream.dimension == VERSION
        begin = search.since - (0.0 if is_version else _BEFORE_S)
        until = search.until + 60.0  # the minute in which it was last bad belongs to it
        with self._reader() as reader, suppress(_TurnOverError):
            for outline in reader.outlines(begin, until):
                if outline.first_sequence in search.read:
                    continue
                if not search.wants(outline.first_timestamp, outline.last_timestamp):
                    continue
                if not has_time():
                    raise _TurnOverError
                search.read.add(outline.first_sequence)
                self._take_in(reader, outline.first_sequence, search, alert, (begin, until))
            return True
        return False

    def _take_in(
        self,
        reader: Reader,
        first_sequence: int,
        search: _TopicReading,
        alert: Alert,
        span: tuple[float, float],
    ) -> None:
        """The queries of a block whose outcome is known."""
        block, contents = reader.block(first_sequence), reader.contents(first_sequence)
        if block is None or contents is None:
            return  # damaged, which is counted
        observations = current(reader, self._pipeline, block)
        stamps = observations.timestamps
        stream = alert.key.stream
        loss = self._losses.losses(observations.values)[:, self._losses.index[stream.metric]]
        fits = (stamps >= span[0]) & (stamps < span[1]) & ~np.isnan(loss)
        members = alert_members(observations, alert)
        if stream.dimension == VERSION:
            whole = alert_members(observations, alert, whole_pipeline=True)
            fits, is_since = fits & whole, members
        else:
            fits, is_since = fits & members, stamps >= search.since
        self._append(search, questions_of(contents), fits, is_since, loss > 0.5)

    @staticmethod
    def _append(
        search: _TopicReading,
        questions: BlockQuestions,
        fits: NDArray[np.bool_],
        is_since: NDArray[np.bool_],
        fails: NDArray[np.bool_],
    ) -> None:
        places = np.flatnonzero(fits).tolist()
        search.texts += [questions.texts[at] for at in places]
        search.askers += [questions.askers[at] for at in places]
        search.is_since += is_since[places].tolist()
        search.fails += fails[places].tolist()
