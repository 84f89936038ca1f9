"""Grounding judge: one answer in, one score with its doubts out."""

from collections.abc import Sequence

from msgspec import Struct

from ragmon.judges.grounding import evidence, model, scope
from ragmon.judges.grounding.doubts import doubts
from ragmon.judges.grounding.evidence import SHARES, SentenceEvidence
from ragmon.judges.grounding.model import Artefact
from ragmon.judges.grounding.passages import AnswerContext, PassageCache
from ragmon.judges.grounding.words import Vocabulary
from ragmon.records import Doubt


class GroundingResult(Struct, frozen=True):
    """Support of one answer by its context, and the sentences that are doubted."""

    score: float | None  # in [0, 1], high is supported; None: cannot be judged
    reason_none: str | None  # one of ``scope.REASONS`` when there is no score
    doubts: tuple[Doubt, ...]
    traits: tuple[float, ...]  # what ``calibrate`` may learn from; empty when there is no score
    version: str  # of the artefact
    note: str = ""  # the error behind ``reason_none``, where there was one


class GroundingJudge:
    """Scores answers; the same input gives the same result. Not thread-safe (it caches)."""

    def __init__(self, artefact: Artefact, *, cache_characters: int = 300_000) -> None:
        """``cache_characters`` of recently seen chunks are kept read (300 000 take about 13 MB)."""
        self._artefact = artefact
        self._weights = [artefact.weights[share] for share in SHARES]
        self._vocabulary = Vocabulary(model.rarity_weights(artefact.rarity))
        self._cache = PassageCache(self._vocabulary, cache_characters)

    @property
    def version(self) -> str:
        """Of the artefact."""
        return self._artefact.version

    @property
    def threshold(self) -> float:
        """Answers scoring below it are doubted, unless a calibration says otherwise."""
        return self._artefact.threshold

    @property
    def cached_chunks(self) -> int:
        """Chunks kept read."""
        return len(self._cache)

    def score(
        self, query: str | None, answer: str | None, chunk_texts: Sequence[str]
    ) -> GroundingResult:
        """Judge one answer.

        Args:
            query: the question; its words are not called novel, and it completes short answers.
            answer: of at most about 3 300 words read in full, beyond that sampled evenly.
            chunk_texts: retrieved, best first; about 25 000 words are read.
        """
        answer = answer or ""
        context = self._cache.context(chunk_texts)
        reason = scope.reason_before_reading(answer, context)
        if reason is not None:
            return self._unjudged(reason)
        lines = evidence.weigh(answer, query or "", context, self._vocabulary)
        reason = scope.reason_after_reading(answer, lines)
        if reason is not None:
            return self._unjudged(reason)
        return self._judged(lines, context, scope.certainty(answer, lines, context))

    def _judged(
        self, lines: Sequence[SentenceEvidence], context: AnswerContext, certainty: float
    ) -> GroundingResult:
        parts = [model.unsupported(line.shares, self._weights) for line in lines]
        odds = model.logit(self._artefact, model.summarise(lines, parts))
        supports = [model.logistic(certainty * model.logit(self._artefact, part)) for part in parts]
        return GroundingResult(
            score=model.logistic(certainty * odds),
            reason_none=None,
            doubts=doubts(lines, supports, self._artefact.doubt),
            traits=model.traits(lines, parts, context.words),
            version=self.version,
        )

    def _unjudged(self, reason: str) -> GroundingResult:
        return GroundingResult(None, reason, (), (), self.version)


def load(*, cache_characters: int = 300_000) -> GroundingJudge:
    """A judge with the shipped artefact; reads one file of the package.

    Raises:
        msgspec.ValidationError: the artefact in the package is damaged.
    """
    return GroundingJudge(model.load_artefact(), cache_characters=cache_characters)
