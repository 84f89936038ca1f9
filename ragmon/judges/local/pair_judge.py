"""Judge by a model that gives the chance that one text supports another.

Each sentence of an answer is held against parts of the context, and counts as supported as the
part that supports it most says. How the context is cut, and what the score of the answer is,
follows the models' authors:

- ``minicheck`` reads sentences against the document in parts of 400 tokens (500 words for T5); the
  answer is as good as its worst sentence.
- ``nli`` reads sentences against each chunk, and says whether one contradicts; likewise.
- ``hhem`` reads the whole answer against the whole context: that is the score, and sentences only
  name what to doubt.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ragmon.judges.grounding import GroundingResult
from ragmon.judges.grounding.words import sentences
from ragmon.judges.local import findings
from ragmon.judges.local.findings import DOUBTED_FROM
from ragmon.judges.local.passages import Count, grouped, sentence_chunks, split
from ragmon.judges.worker import AnswerToRead
from ragmon.records import Doubt

Cut = Callable[[Sequence[str]], list[str]]
"""From the chunks of an answer to the texts that its sentences are read against."""

MOST_SENTENCES = 64
"""Sentences of an answer that are read; of a longer one they are evenly spaced."""

_SPECIAL_TOKENS = 16  # around the two texts, and the words of a prompt
_CLAIM_SHARE = 4  # of the window that a sentence, or a whole answer, may take


class PairScore(NamedTuple):
    """Chances, in [0, 1]."""

    support: float  # the first text supports the second
    contradiction: float = 0.0  # it says otherwise; 0 from models that do not tell


class PairScorer(Protocol):
    """A loaded model."""

    @property
    def version(self) -> str:
        """Name and digest of the weights."""
        ...

    @property
    def window(self) -> int:
        """Tokens that it reads at once."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text, without special ones."""
        ...

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Scores of pairs of a passage and a claim."""
        ...


class _Claims(NamedTuple):
    """Stretches of one answer, and what each is read against."""

    spans: list[tuple[int, int]]  # the whole answer first where it is what is scored
    premises: list[str]


class SupportJudge:
    """Judges batches; not thread-safe."""

    def __init__(self, model: PairScorer, cut: Cut, *, scores_whole: bool) -> None:
        """Make it.

        Args:
            model: loaded.
            cut: of the context.
            scores_whole: the score is that of the whole answer, not of its worst sentence.
        """
        self._model = model
        self._cut = cut
        self._scores_whole = scores_whole

    @property
    def version(self) -> str:
        """Of the model."""
        return self._model.version

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""
        reasons = [findings.reason_not_to_judge(case.answer, case.chunks) for case in cases]
        claims = [
            self._claims(case) if reason is None else _Claims([], [])
            for case, reason in zip(cases, reasons, strict=True)
        ]
        scored = iter(
            self._model.pairs(
                [
                    (premise, self._shortened(case.answer[begin:end].strip()))
                    for case, (spans, premises) in zip(cases, claims, strict=True)
                    for begin, end in spans
                    for premise in premises
                ]
            )
        )
        results = []
        for case, (spans, premises), reason in zip(cases, claims, reasons, strict=True):
            best = [_best([next(scored) for _ in premises]) for _ in spans]
            if reason is not None:
                results.append(findings.unjudged(reason, self.version))
            else:
                results.append(self._result(case.answer, spans, best))
        return results

    def _claims(self, case: AnswerToRead) -> _Claims:
        spans = list(sentences(case.answer))
        spans = spans[:: 1 + (len(spans) - 1) // MOST_SENTENCES]
        if self._scores_whole:
            whole = (0, len(case.answer))
            spans = [whole, *spans] if len(spans) > 1 else [whole]
        return _Claims(spans, self._cut(case.chunks))

    def _shortened(self, claim: str) -> str:
        """The beginning of a claim that would leave the passage no room."""
        return split(claim, self._model.window // _CLAIM_SHARE, self._model.count)[0]

    def _result(
        self, answer: str, spans: Sequence[tuple[int, int]], best: Sequence[PairScore]
    ) -> GroundingResult:
        named = slice(1, None) if self._scores_whole and len(spans) > 1 else slice(None)
        doubts = [
            _doubt(answer, span, score)
            for span, score in zip(spans[named], best[named], strict=True)
            if 1.0 - score.support >= DOUBTED_FROM
        ]
        worst = min(score.support for score in best)
        score = best[0].support if self._scores_whole else worst
        return findings.judged(score, doubts, self.version)


def whole_context(window: int, count: Count) -> Cut:
    """All chunks together, as far as the window holds them (HHEM)."""
    budget = window - window // _CLAIM_SHARE - 2 * _SPECIAL_TOKENS

    def cut(chunks: Sequence[str]) -> list[str]:
        parts = [part for chunk in chunks for part in split(chunk, budget, count)]
        groups = grouped(parts, [count(part) for part in parts], budget)
        return ["\n".join(group) for group in groups]

    return cut


def documents(size: int, count: Count) -> Cut:
    """The chunks as one document, in parts of whole sentences (MiniCheck)."""
    return lambda chunks: sentence_chunks("\n".join(chunks), size, count)


def chunks_apart(window: int, count: Count) -> Cut:
    """Each chunk by itself, cut with overlap where it is longer than the window (NLI)."""
    size = window - window // _CLAIM_SHARE - _SPECIAL_TOKENS
    return lambda chunks: [
        part for chunk in chunks if chunk.strip() for part in split(chunk, size, count)
    ]


def _best(scores: Sequence[PairScore]) -> PairScore:
    return PairScore(
        max(score.support for score in scores), max(score.contradiction for score in scores)
    )


def _doubt(answer: str, span: tuple[int, int], score: PairScore) -> Doubt:
    begin, end = span
    text = answer[begin:end]
    start = begin + len(text) - len(text.lstrip())
    contradicted = score.contradiction >= DOUBTED_FROM
    reason = "contradicted" if contradicted else "unsupported_sentence"
    return findings.doubt(start, start + len(text.strip()), reason, score.support)
