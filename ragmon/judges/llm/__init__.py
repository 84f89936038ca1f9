"""A language model as judge, over any OpenAI-compatible endpoint.

    judge = build(Options(base_url="http://localhost:11434/v1", model="qwen3"), SystemClock())
    chunks = (("c1", "Ann wrote it in 1907."),)
    judge.judge(JudgedAnswer("Who wrote it?", "Ann did.", chunks))

The modes: ``claims`` (the answer's claims, each verified against the chunks), ``rubric`` (four
grades), ``useful_chunks`` (which chunks helped) and ``context_recall`` (what of a reference
answer the chunks hold). What cannot be judged is a ``Failure`` with a reason, never a score.

Texts are fenced by a random delimiter, and a reply counts only if it carries a second random
token that no text can know. That keeps scores from being *taken* from a text. It cannot keep a
gullible model from being persuaded by one: prefer ``claims``, which asks for no score at all.
"""

from ragmon.judges.llm.cache import Cache, LruCache
from ragmon.judges.llm.judge import LlmJudge, build
from ragmon.judges.llm.noise import Noise, noise_sensitivity
from ragmon.judges.llm.options import Options, Price
from ragmon.judges.llm.verdict import REASONS, Claim, Failure, JudgedAnswer, Judgement, TokenUsage

__all__ = [
    "REASONS",
    "Cache",
    "Claim",
    "Failure",
    "JudgedAnswer",
    "Judgement",
    "LlmJudge",
    "LruCache",
    "Noise",
    "Options",
    "Price",
    "TokenUsage",
    "build",
    "noise_sensitivity",
]
