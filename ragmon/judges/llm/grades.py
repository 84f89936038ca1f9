"""The rubric, and which chunks were useful."""

from typing import Literal

from msgspec import Struct

from ragmon.judges.llm.claims import numbered_chunks
from ragmon.judges.llm.question import Conversation, Prompt
from ragmon.judges.llm.verdict import JudgedAnswer

Grade = Literal[1, 2, 3, 4, 5]


class Graded(Struct, frozen=True):
    """Four grades, after their reason."""

    justification: str
    faithfulness: Grade
    relevance: Grade
    completeness: Grade
    conciseness: Grade


class Useful(Struct, frozen=True):
    """Chunks by their numbers from 1."""

    useful: tuple[int, ...]


def judge_rubric(interview: Conversation, case: JudgedAnswer) -> tuple[dict[str, float], str]:
    """(scores in [0, 1] by metric, justification).

    Raises:
        JudgeError: the model gave no usable answer.
    """
    material = (*numbered_chunks(case), ("question", case.query), ("answer", case.answer))
    got = interview.ask(Prompt("rubric", material, Graded, lambda _: ""))
    grades = {
        "faithfulness": got.faithfulness,
        "answer_relevance": got.relevance,
        "completeness": got.completeness,
        "conciseness": got.conciseness,
    }
    return {name: (grade - 1) / 4 for name, grade in grades.items()}, got.justification[:1_000]


def judge_usefulness(interview: Conversation, case: JudgedAnswer) -> tuple[int, ...]:
    """Ranks of the useful chunks from 1, ascending.

    Raises:
        JudgeError: the model gave no usable answer.
    """
    count = len(case.chunks)
    material = (*numbered_chunks(case), ("question", case.query))
    got = interview.ask(Prompt("useful", material, Useful, lambda it: _wrong(it, count)))
    return tuple(sorted(got.useful))


def context_precision(useful: tuple[int, ...]) -> float:
    """Mean precision at the rank of each useful chunk; 0 when none is useful.

    Args:
        useful: ranks from 1, ascending and distinct.
    """
    return sum(n / rank for n, rank in enumerate(useful, 1)) / len(useful) if useful else 0.0


def _wrong(got: Useful, chunks: int) -> str:
    if len(set(got.useful)) < len(got.useful):
        return "a passage is there twice"
    if any(not 1 <= number <= chunks for number in got.useful):
        return f"there are {chunks} passages"
    return ""
