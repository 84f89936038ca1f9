"""Judged answers of a store: those that people labelled, and those on which judges are at odds."""

import heapq
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from ragmon.records import Amendments
from ragmon.signals.evidence import BELIEVED, people_score
from ragmon.signals.verdict_sums import calls_good

MOST_LABELLED = 100_000
"""Newest labelled answers that are looked at: some 100 MB."""

_MOST_AT_ODDS = 1_000


class AnswerPlace(NamedTuple):
    """Pipeline, version and slices of an answer, and when it was asked for."""

    pipeline: str
    version: str
    slices: tuple[tuple[str, str], ...]  # dimension and value, without those not recorded
    timestamp: float  # unix seconds


class JudgeScore(NamedTuple):
    """Score of one answer by one judge."""

    score: float
    is_good: bool  # by the judge's own threshold
    version: str
    is_marked: bool = False  # as grounded


class LabelledAnswer(NamedTuple):
    """An answer that people labelled, with the scores that can be compared with their labels."""

    place: AnswerPlace
    labels: dict[str, float]  # by judge whose score the label is about
    scores: dict[str, JudgeScore]  # by judge


class AnswerAtOdds(NamedTuple):
    """An answer to which judges of faithfulness gave different scores."""

    distance: float
    timestamp: float
    query_id: str
    place: AnswerPlace
    scores: dict[str, float]
    label: float | None


class PairSums:
    """Two judges on the answers that both scored."""

    def __init__(self) -> None:
        self.answers = 0
        self.disagreed = 0
        self.distance = 0.0


class JudgedAnswers:
    """Everything that was gathered; answers are added the newest first."""

    def __init__(self, most_labelled: int = MOST_LABELLED) -> None:
        self.labelled: list[LabelledAnswer] = []
        self.left_out = 0
        self.pairs: dict[tuple[str, str], PairSums] = {}
        self._at_odds: list[tuple[float, float, str, AnswerAtOdds]] = []  # a heap
        self._most = most_labelled

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        return 1_000 * (len(self.labelled) + len(self._at_odds))

    @property
    def judges(self) -> list[str]:
        """Judges whose scores people's labels are about."""
        return sorted({judge for answer in self.labelled for judge in answer.labels})

    def at_odds(self, limit: int) -> list[AnswerAtOdds]:
        """Answers on which judges are at odds, the largest distance first."""
        return [entry[-1] for entry in heapq.nlargest(limit, self._at_odds)]

    def add(self, place: AnswerPlace, known: Amendments) -> None:
        """Add one answer, where judges or people said something of it."""
        scores = {
            verdict.judge: JudgeScore(
                verdict.score,
                bool(calls_good(verdict)),
                verdict.version.partition("+")[0],
                verdict.marked_grounded,
            )
            for verdict in known.verdicts
            if verdict.score is not None
        }
        if not scores:
            return
        labels = {
            judge: label
            for judge in scores
            if (label := people_score(known, judge)) is not None
        }  # fmt: skip
        if labels:
            self._add_labelled(LabelledAnswer(place, labels, scores))
        believed = [judge for judge in BELIEVED if judge in scores]
        if len(believed) > 1:
            label = people_score(known, believed[0])
            self._compare(known.verdicts[0].query_id, place, scores, believed, label)

    def _add_labelled(self, answer: LabelledAnswer) -> None:
        if len(self.labelled) < self._most:
            self.labelled.append(answer)
        else:
            self.left_out += 1

    def _compare(
        self,
        query_id: str,
        place: AnswerPlace,
        scores: dict[str, JudgeScore],
        believed: Sequence[str],
        label: float | None,
    ) -> None:
        for one, other in combinations(believed, 2):
            sums = self.pairs.setdefault((one, other), PairSums())
            sums.answers += 1
            sums.disagreed += scores[one].is_good != scores[other].is_good
            sums.distance += abs(scores[one].score - scores[other].score)
        by_judge = {judge: scores[judge].score for judge in believed}
        distance = max(by_judge.values()) - min(by_judge.values())
        if distance <= 0.0:
            return
        answer = AnswerAtOdds(distance, place.timestamp, query_id, place, by_judge, label)
        entry = (distance, place.timestamp, query_id, answer)
        if len(self._at_odds) < _MOST_AT_ODDS:
            heapq.heappush(self._at_odds, entry)
        elif entry[:3] > self._at_odds[0][:3]:
            heapq.heapreplace(self._at_odds, entry)
