"""Converters of each field, from the values that applications pass to those of the wire.

A converter raises ``ValueError`` (or whatever the value's own code raises) for what it cannot use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from math import isfinite
from typing import Any

from ragmon.client.identity import wire_id
from ragmon.client.limits import (
    MAX_CHUNKS,
    MAX_DIMENSIONS,
    MAX_FEEDBACK_TEXT,
    MAX_ID,
    MAX_TAGS,
    MAX_TEXT,
)

Converter = Callable[[Any], Any]

_RATINGS = {"positive": 1.0, "negative": -1.0}
_STAGES = ("total", "retrieval", "generation")
_PROMPT = ("prompt", "prompt_tokens", "input_tokens", "input")
_COMPLETION = ("completion", "completion_tokens", "output_tokens", "output")
_MAX_CUSTOM_SCORES = 64
_MAX_COST_USD = 1e9
_MAX_LATENCY_MS = 1e9


def text(value: Any) -> str:
    """Text, or a message object that holds it as ``content``."""
    if not isinstance(value, str):
        value = getattr(value, "content", value)
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {type(value).__name__}")
    return value[:MAX_TEXT]


def name(value: Any) -> str | None:
    """A short label; the empty one is not recorded."""
    if isinstance(value, (Mapping, Sequence, Set)) and not isinstance(value, str):
        raise ValueError(f"expected a name, got {type(value).__name__}")
    return str(value)[:MAX_ID] or None


def number(value: Any, low: float, high: float) -> float:
    """A finite number within bounds, of any numeric type."""
    if isinstance(value, (bool, str)):
        raise ValueError(f"expected a number, got {type(value).__name__}")
    result = float(value)
    if not (isfinite(result) and low <= result <= high):
        raise ValueError(f"expected a number in [{low:g}, {high:g}], got {result:g}")
    return result


def rating(value: Any) -> float:
    """Feedback: a word, a boolean (also numpy's), or a number in [-1, 1]."""
    if isinstance(value, str):
        if value.lower() not in _RATINGS:
            raise ValueError("expected positive, negative, a boolean or a number in [-1, 1]")
        return _RATINGS[value.lower()]
    if type(value).__name__ in ("bool", "bool_"):
        return 1.0 if value else -1.0
    return number(value, -1.0, 1.0)


def latency(value: Any) -> dict[str, float] | float:
    """Milliseconds: the total, or each stage by key or attribute."""
    look = _look(value)
    if not any(look(stage) is not None for stage in _STAGES):
        return number(value, 0.0, _MAX_LATENCY_MS)
    return {
        stage: number(look(stage), 0.0, _MAX_LATENCY_MS)
        for stage in _STAGES
        if look(stage) is not None
    }


def tokens(value: Any) -> dict[str, int]:
    """Token counts under the names of ragmon or another library."""
    look = _look(value)
    counts = {}
    for field, names in (("prompt", _PROMPT), ("completion", _COMPLETION)):
        count = next((look(each) for each in names if look(each) is not None), None)
        if count is not None:
            counts[field] = int(number(count, 0.0, 1e12))
    if not counts:
        raise ValueError("expected `prompt` and `completion`")
    return counts


def tags(value: Any) -> dict[str, str]:
    """Slices: text by text; an absent value is an absent tag."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a dictionary, got {type(value).__name__}")
    entries = [(key, text) for key, text in value.items() if text is not None]
    return {str(key)[:MAX_ID]: str(text)[:MAX_ID] for key, text in entries[:MAX_TAGS]}


def ids(value: Any) -> list[str]:
    """Ids of relevant chunks."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f"expected a list of ids, got {type(value).__name__}")
    return [wire_id(each) for each in value][:MAX_CHUNKS]


def embeddings(value: Any) -> dict[str, list[float]]:
    """Vectors of question and answer, by one model."""
    look = _look(value)
    vectors = {side: _vector(look(side), side) for side in ("query", "answer")}
    if len(vectors["query"]) != len(vectors["answer"]):
        raise ValueError("`query` and `answer` differ in length")
    return vectors


def _vector(value: Any, side: str) -> list[float]:
    """A list of numbers, or an array of any library that gives one."""
    to_list = getattr(value, "tolist", None)
    elements = to_list() if callable(to_list) else value
    if not isinstance(elements, (list, tuple)) or not 0 < len(elements) <= MAX_DIMENSIONS:
        raise ValueError(f"expected a vector of 1 to {MAX_DIMENSIONS} numbers as `{side}`")
    return [number(element, -1e30, 1e30) for element in elements]


def grades(value: Any) -> dict[str, float]:
    """Grades by chunk id."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected grades by id, got {type(value).__name__}")
    entries = list(value.items())[:MAX_CHUNKS]
    return {wire_id(key): number(grade, -100.0, 100.0) for key, grade in entries}


def scores(value: Any) -> dict[str, float]:
    """Scores in [0, 1] by the name of a custom judge."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected scores by judge, got {type(value).__name__}")
    entries = list(value.items())[:_MAX_CUSTOM_SCORES]
    return {wire_id(key): number(score, 0.0, 1.0) for key, score in entries}


def error(value: Any) -> str:
    """Text of an error."""
    return str(value)[:MAX_TEXT]


def timestamp(value: Any) -> float:
    """Unix seconds; a naive ``datetime`` is local time, as everywhere in Python."""
    seconds = value.timestamp() if isinstance(value, datetime) else value
    return number(seconds, 0.0, 253402300799.0)


def _look(value: Any) -> Callable[[str], Any]:
    """Reads a key of a dictionary, or an attribute of anything else."""
    if isinstance(value, Mapping):
        return value.get
    return lambda key: getattr(value, key, None)


CONVERTERS: dict[str, Converter] = {
    "query_id": wire_id,
    "timestamp": timestamp,
    "pipeline": name,
    "version": name,
    "tags": tags,
    "query": text,
    "retrieval_query": text,
    "answer": text,
    "latency_ms": latency,
    "feedback": rating,
    "relevant_ids": ids,
    "grades": grades,
    "embeddings": embeddings,
    "query_answer_similarity": lambda value: number(value, -1.0, 1.0),
    "error": error,
    "model": name,
    "tokens": tokens,
    "cost_usd": lambda value: number(value, 0.0, _MAX_COST_USD),
    "session_id": name,
    "user_id": name,
    "trace_id": name,
    "span_id": name,
    "environment": name,
    "rating": rating,
    "comment": lambda value: text(value)[:MAX_FEEDBACK_TEXT],
    "labeller": name,
    "faithful": lambda value: number(value, 0.0, 1.0),
    "scores": scores,
}
"""By field name on the wire; ``chunks``, ``citations`` and ``steps`` stand in ``documents``."""
