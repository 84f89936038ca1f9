"""Judge by a model that says of each token of an answer whether the passages support it.

As LettuceDetect's authors do: passages that do not fit into the window together are read in
groups, each in the whole prompt, and a token is as unsupported as the group that supports it least
says. A passage that does not fit alone is cut with overlap, and so is an answer longer than a third
of the window. The score of an answer is that of its worst token.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ragmon.judges.grounding import GroundingResult
from ragmon.judges.local import findings
from ragmon.judges.local.findings import TokenScore
from ragmon.judges.local.passages import grouped, split, windows
from ragmon.judges.local.prompts import LettucePrompt
from ragmon.judges.worker import AnswerToRead

_ANSWER_SHARE, _QUESTION_SHARE = 3, 6  # of the window: a third, a sixth
_SPECIAL_TOKENS = 3
_LEAST_BUDGET = 16  # tokens for passages, whatever the rest takes


class TokenClassifier(Protocol):
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

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> list[list[TokenScore]]:
        """Scores of the tokens of each second text, read after the first."""
        ...


class _Piece(NamedTuple):
    """A part of an answer, to be read after one prompt."""

    case: int  # number of the answer in the batch
    start: int  # of the part in the answer
    prompt: str
    text: str


class TokenJudge:
    """Judges batches; not thread-safe."""

    def __init__(self, model: TokenClassifier, prompt: LettucePrompt) -> None:
        self._model = model
        self._prompt = prompt

    @property
    def version(self) -> str:
        """Of the model."""
        return self._model.version

    def judge(self, cases: Sequence[AnswerToRead]) -> list[GroundingResult]:
        """Results in order."""
        reasons = [findings.reason_not_to_judge(case.answer, case.chunks) for case in cases]
        pieces = [
            piece
            for number, case in enumerate(cases)
            if reasons[number] is None
            for piece in self._pieces(number, case)
        ]
        scored = self._model.tokens([(piece.prompt, piece.text) for piece in pieces])
        worst: list[dict[tuple[int, int], float]] = [{} for _ in cases]
        for piece, tokens in zip(pieces, scored, strict=True):
            known = worst[piece.case]
            for start, end, unsupported in tokens:
                place = (piece.start + start, piece.start + end)
                known[place] = max(known.get(place, 0.0), unsupported)
        return [
            self._result(case, known, reason)
            for case, known, reason in zip(cases, worst, reasons, strict=True)
        ]

    def _result(
        self, case: AnswerToRead, known: dict[tuple[int, int], float], reason: str | None
    ) -> GroundingResult:
        if reason is None and not known:
            reason = "empty_answer"  # of characters that the model has no tokens for
        if reason is not None:
            return findings.unjudged(reason, self.version)
        tokens = [TokenScore(*place, known[place]) for place in sorted(known)]
        score = 1.0 - max(known.values())
        return findings.judged(score, findings.doubted_spans(case.answer, tokens), self.version)

    def _pieces(self, number: int, case: AnswerToRead) -> list[_Piece]:
        model = self._model
        question = split(case.query, model.window // _QUESTION_SHARE, model.count)[-1]
        pieces: list[_Piece] = []
        for start, end in windows(case.answer, model.window // _ANSWER_SHARE, model.count):
            text = case.answer[start:end]
            room = model.window - model.count(text) - _SPECIAL_TOKENS
            prompts = self._prompts(question, case.chunks, room)
            pieces += [_Piece(number, start, prompt, text) for prompt in prompts]
        return pieces

    def _prompts(self, question: str, chunks: Sequence[str], room: int) -> list[str]:
        """The prompts in which all chunks are read, each of at most ``room`` tokens."""
        count, prompt = self._model.count, self._prompt
        whole = prompt.text(question, chunks)
        if count(whole) <= room:
            return [whole]
        budget = max(_LEAST_BUDGET, room - count(prompt.text(question, [""])))
        size = max(_LEAST_BUDGET, budget - count(prompt.line(len(chunks), "")))
        passages = [part for chunk in chunks for part in split(chunk, size, count)]
        costs = [count(prompt.line(rank, text)) for rank, text in enumerate(passages, 1)]
        return [prompt.text(question, group) for group in grouped(passages, costs, budget)]
