"""Rubric grades, and the useful chunks."""

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


def judge_rubric(conversation: Conversation, case: JudgedAnswer) -> tuple[dict[str, float], str]:
    """(scores in [0, 1] by metric, justification).

    Raises:
        JudgeError: the model gave no usable answer.
    """
    earlier = tuple(
        (f"passage of an earlier turn {n}", t) for n, (_, t) in enumerate(case.earlier, 1)
    )
    passages = (*numbered_chunks(case), *earlier)
    material = (*passages, ("question", case.query), ("answer", case.answer))
    reply = conversation.ask(Prompt("rubric", material, Graded, lambda _: ""))
    grades = {
        "faithfulness": reply.faithfulness,
        "answer_relevance": reply.relevance,
        "completeness": reply.completeness,
        "conciseness": reply.conciseness,
    }
    return {name: (grade - 1) / 4 for name, grade in grades.items()}, reply.justification[:1_000]


def judge_usefulness(conversation: Conversation, case: JudgedAnswer) -> tuple[int, ...]:
    """Ranks of the useful chunks from 1, ascending.

    Raises:
        JudgeError: the model gave no usable answer.
    """
    count = len(case.chunks)
    material = (*numbered_chunks(case), ("question", case.query))
    reply = conversation.ask(Prompt("useful", material, Useful, lambda reply: _wrong(reply, count)))
    return tuple(sorted(reply.useful))


def context_precision(useful: tuple[int, ...]) -> float:
    """Mean precision at the rank of each useful chunk; 0 when none is useful.

    Args:
        useful: ranks from 1, ascending and distinct.
    """
    return sum(n / rank for n, rank in enumerate(useful, 1)) / len(useful) if useful else 0.0


def _wrong(reply: Useful, chunks: int) -> str:
    if len(set(reply.useful)) < len(reply.useful):
        return "a passage is listed twice"
    if any(not 1 <= number <= chunks for number in reply.useful):
        return f"a passage number is not in 1 to {chunks}"
    return ""
