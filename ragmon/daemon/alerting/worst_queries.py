"""The queries that show best what an alert is about."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragmon import privacy
from ragmon.alerts import Alert, WorstQuery
from ragmon.alerts.example_texts import clip
from ragmon.detectors.losses import REPEAT, LossMap, loss_of
from ragmon.percentages import percent_text
from ragmon.pipeline import Pipeline, Privacy
from ragmon.queries.blocks import current
from ragmon.records import QueryRecord
from ragmon.stores import Block, Reader
from ragmon.windows.observations import Observations
from ragmon.windows.series import VERSION
from ragmon.word_pieces import compatible

MOST = 5
_MOST_RECORDS = 50_000  # that are looked at, the newest first
_MOST_OPENED = 2_000  # of them, until five differ; a storm of one question has many more
_TEXT = 200  # characters
_MOST_ASKER = 60  # characters of the user who repeats a question
_LATENCIES = ("slow", "latency", "latency_p50")
_WHY = {
    "zero_result": "nothing was retrieved",
    "hit": "no relevant chunk on top",
    "low_score": "the best score is low",
    "uncited": "cites nothing it was given",
    "cited_unretrieved": "cites what was not retrieved",
    "refusal": "declines to answer",
    "false_refusal": "declines although something relevant was retrieved",
    "positive_feedback": "disliked",
}

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class _Bad(NamedTuple):
    badness: float
    timestamp: float
    block: int  # its first sequence number
    at: int
    loss: float


class WorstQueries:
    """Looks them up beside the writer."""

    def __init__(self, reader: Callable[[], Reader], pipeline: Pipeline, texts: Privacy) -> None:
        self._reader = reader
        self._pipeline = pipeline
        self._texts = texts
        self._losses = LossMap(pipeline.columns)

    def find(
        self, alert: Alert, has_time: Callable[[], bool] = lambda: True
    ) -> tuple[WorstQuery, ...]:
        """Up to five from the change to the alert, the worst first; of equals the newest.

        Each asks something else: a question that is asked again and again is there once.

        Args:
            alert: that they show.
            has_time: false once what was read must do; one block is read in any case.
        """
        if alert.key.kind == "no_data" or alert.key.stream.metric not in self._losses.index:
            return ()
        with self._reader() as reader:
            worst = heapq.nlargest(_MOST_OPENED, self._bad(reader, alert, has_time))
            distinct: dict[str, WorstQuery] = {}
            for record, bad in _opened(reader, worst, has_time):
                question = normalized(record.query or "") or record.query_id
                if question not in distinct:
                    distinct[question] = self._shown(record, bad, alert.key.stream.metric)
                if len(distinct) == MOST:
                    break
            return tuple(distinct.values())

    def _bad(self, reader: Reader, alert: Alert, has_time: Callable[[], bool]) -> Iterator[_Bad]:
        """Every query that loses something."""
        finding = alert.finding
        since = finding.changed_at or alert.began_at - (finding.window_s or 3_600.0)
        until = alert.fired_at or alert.bad_at
        seen = 0
        for block in reader.blocks(since, until):
            observations = current(reader, self._pipeline, block)
            stamps = observations.timestamps
            fits = (stamps >= since) & (stamps < until) & alert_members(observations, alert)
            yield from self._lost(block, observations, fits, alert.key.stream.metric)
            seen += len(observations)
            if seen >= _MOST_RECORDS or not has_time():
                return

    def _lost(
        self, block: Block, observations: Observations, fits: NDArray[np.bool_], metric: str
    ) -> Iterator[_Bad]:
        if metric in _LATENCIES:
            loss = self._losses.latency_ms(observations.values)
        elif metric == REPEAT:
            loss = self._losses.repeats(observations.values)
        else:
            loss = self._losses.losses(observations.values)[:, self._losses.index[metric]]
        for at in np.flatnonzero(fits & (loss > 0.0)).tolist():
            value, when = float(loss[at]), float(observations.timestamps[at])
            yield _Bad(value, when, block.first_sequence, at, value)

    def _shown(self, record: QueryRecord, bad: _Bad, metric: str) -> WorstQuery:
        return WorstQuery(
            query_id=record.query_id,
            query=self._text(record.query or ""),
            why=self._why(record, bad.loss, metric),
            trace_id=record.trace_id or "",
            span_id=record.span_id or "",
        )

    def _why(self, record: QueryRecord, loss: float, metric: str) -> str:
        if metric in _LATENCIES:
            return f"{loss:,.0f} ms"
        if metric == REPEAT:
            asker = self._text(record.user_id or record.session_id or "")
            by = f" by {clip(asker, _MOST_ASKER)}" if asker else ""
            return f"asked {loss + 1.0:,.0f} times in a minute{by}"
        if metric == "error":
            return self._text(record.error or "") or "failed"
        names = loss_of(metric)
        value = f"{names.good or names.bad} {percent_text(1.0 - loss if names.good else loss, 0)}"
        return _WHY.get(metric, value)

    def _text(self, text: str) -> str:
        if self._texts == "drop":
            return ""
        if self._texts == "redact":
            text = privacy.redact_text(text)
        return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def normalized(question: str) -> str:
    """A question without what does not make it another: case, blanks, its last full stop."""
    folded = compatible(question).casefold()
    return " ".join(folded.split()).rstrip(" ?!.…")


def _opened(
    reader: Reader, worst: Sequence[_Bad], has_time: Callable[[], bool]
) -> Iterator[tuple[QueryRecord, _Bad]]:
    """The records in their order, a few at first: five different ones are mostly among them."""
    first, count = 0, 2 * MOST
    while part := worst[first : first + count]:
        places: dict[int, list[int]] = {}
        for bad in part:
            places.setdefault(bad.block, []).append(bad.at)
        stored = {block: reader.some_records(block, at) for block, at in places.items()}
        for bad in part:
            if bad.at in stored[bad.block]:  # it may have expired meanwhile
                yield _decode(stored[bad.block][bad.at]), bad
        first, count = first + count, 2 * count
        if not has_time():
            return


def alert_members(
    observations: Observations, alert: Alert, *, whole_pipeline: bool = False
) -> NDArray[np.bool_]:
    """Mask of the records of the stream that the alert is about, or its pipeline; shape (n,)."""
    stream = alert.key.stream
    place = {VERSION: 1} | {name: at for at, name in enumerate(observations.slices, 2)}
    members = [
        dims[0] == stream.pipeline
        and (
            whole_pipeline
            or not stream.dimension
            or (stream.dimension in place and dims[place[stream.dimension]] == stream.value)
        )
        for dims in observations.dims
    ]
    return np.array(members, dtype=np.bool_)[observations.dim_index]
