"""Semantic similarity by an embedding function, where one is configured."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ragmon.errors import SettingsError, extra_hint
from ragmon.evaluate.cases import Case
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.records import QueryRecord

Embed = Callable[[Sequence[str]], ArrayLike]
"""n texts to vectors of shape (n, dimensions)."""

_LIBRARY = "sentence-transformers"


class Similarity:
    """Cosine of the answer with the truth and with the question; negative ones count as 0.

    ``query_similarity`` stands in for answer relevancy: an answer to another question lies far
    from this one. It is no measure of correctness.
    """

    metrics: tuple[str, ...] = ("semantic_similarity", "query_similarity")
    concurrency = 1

    def __init__(self, embed: Embed, name: str) -> None:
        self.name = name
        self._embed = embed
        self._usage = JudgeUsage(name)

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Similarities of one answer; a text that is missing leaves its metric out."""
        others = {"semantic_similarity": case.ground_truth_answer, "query_similarity": case.query}
        texts = {name: text for name, text in others.items() if text}
        if not record.answer or not texts:
            return {}
        self._usage.judged()
        vectors = np.asarray(self._embed([record.answer, *texts.values()]), dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        cosines = vectors[1:] @ vectors[0] / np.maximum(lengths[1:] * lengths[0], 1e-12)
        return dict(zip(texts, np.clip(cosines, 0.0, 1.0).tolist(), strict=True))

    def usage(self) -> UsageSummary:
        """Number of answers compared."""
        return self._usage.summary()


def load(setting: str) -> Similarity:
    """An embedder by its setting.

    Args:
        setting: ``sentence-transformers:MODEL``, or ``package.module:function``.

    Raises:
        SettingsError: it cannot be imported.
    """
    module, _, name = setting.partition(":")
    if not name:
        hint = f"Write {_LIBRARY}:MODEL or package.module:function"
        raise SettingsError(f"embedder {setting!r} names no model or function", hint=hint)
    if module == _LIBRARY:
        return Similarity(_sentence_transformer(name), name.rpartition("/")[2])
    try:
        function: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"embedder {setting!r}: {error}") from error
    return Similarity(function, name)


def _sentence_transformer(model: str) -> Embed:
    try:
        library: Any = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise SettingsError(
            f"{_LIBRARY} is not installed", hint=extra_hint("embeddings")
        ) from error
    encode: Embed = library.SentenceTransformer(model).encode
    return encode
