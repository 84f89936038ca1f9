"""Selection of answers for the sampled judge: a probability for each, and the draw."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.records import Draw, QueryRecord, Verdict
from ragmon.sampling import Forecast, Sampler, SamplingOptions, draw
from ragmon.signals import Column
from ragmon.stats.judged_estimate import Relation, doubt, relation
from ragmon.windows import Windows
from ragmon.windows.estimates import sampled_sums
from ragmon.windows.observations import index_dims
from ragmon.windows.series import dims_of

TRAFFIC = "judge.traffic"
"""Name under which the store keeps what is known of the traffic."""

NO_PROXY = 0.5
"""Proxy score of an answer that the embedded judge cannot judge."""

_REFRESH_S = 60.0


class AnswerFacts(Struct, frozen=True):
    """Facts that only the writer's thread has: the length of the queue, and the proxy's worth."""

    waiting: int  # answers
    relations: Mapping[str, Relation]  # of faithfulness with the proxy score, by pipeline


class JudgeSelection:
    """Draws answers; called by the one thread that follows the store."""

    def __init__(
        self,
        sampler: Sampler,
        budget: SharedBudget,
        clock: Clock,
        *,
        slices: tuple[str, ...],
        known: Callable[[bool], AnswerFacts],
        forecast_usd: Callable[[QueryRecord], float],
    ) -> None:
        self._sampler = sampler
        self._budget = budget
        self._clock = clock
        self._slices = slices
        self._known = known  # called with True when the relations are needed, too
        self._forecast_usd = forecast_usd
        self._relations: Mapping[str, Relation] = {}
        self._asked_at = -_REFRESH_S

    @property
    def traffic(self) -> bytes:
        """The forecast of the traffic, for ``sampler_of`` after a restart."""
        return msgspec.msgpack.encode(self._sampler.forecast)

    def __call__(
        self, records: Sequence[QueryRecord], verdicts: Sequence[Verdict], share: float
    ) -> list[Draw]:
        """Every answer with its probability, drawn or not.

        Args:
            records: answers that were looked at.
            verdicts: the embedded judge's, in the same order; none where it is off.
            share: with which each of the answers was looked at, in (0, 1].
        """
        if not records:
            return []
        scores = [each.score for each in verdicts] or [None] * len(records)
        chance = self._probabilities(records, scores)
        now = self._clock.now()
        return [
            Draw(
                query_id=record.query_id,
                probability=share * probability,
                proxy=NO_PROXY if score is None else score,
                share=share,
                drawn=draw(record.query_id) < probability,
                timestamp=now,
            )
            for record, score, probability in zip(records, scores, chance, strict=True)
        ]

    def _probabilities(
        self, records: Sequence[QueryRecord], scores: Sequence[float | None]
    ) -> list[float]:
        due = self._clock.monotonic() - self._asked_at >= _REFRESH_S
        known = self._known(due)
        if due:
            self._relations, self._asked_at = known.relations, self._clock.monotonic()
        chance_bad = [
            np.nan
            if score is None
            else float(doubt(score, self._relations.get(record.pipeline, Relation())))
            for record, score in zip(records, scores, strict=True)
        ]
        forecast = float(np.mean([self._forecast_usd(record) for record in records]))
        rate, room = self._budget.rate_and_room(known.waiting, self._budget.cost_usd(forecast))
        dims, index = index_dims([dims_of(record, self._slices) for record in records])
        chances: list[float] = self._sampler.probabilities(
            self._clock.now(), dims, index, chance_bad, pace_per_hour=rate, room=room
        ).tolist()
        return chances


def sampler_of(options: SamplingOptions, traffic: bytes | None) -> Sampler:
    """A sampler that goes on with the traffic of before."""
    known = msgspec.msgpack.decode(traffic, type=Forecast) if traffic else None
    return Sampler(options, known)


def relations(
    windows: Windows, columns: Sequence[Column], window_s: float, now: float
) -> dict[str, Relation]:
    """Relation of faithfulness with the proxy in the last window, by pipeline."""
    merged = windows.merge(window_s, now)
    shared, scored = sampled_sums(merged, columns)
    return {
        key.pipeline: relation(shared[at, 0], scored[at, 0])
        for key, at in windows.series.keys.items()
        if not key.dimension and at < len(shared)
    }
