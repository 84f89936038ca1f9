"""TREC files: judgements (qrels) of four columns, runs of six."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragmon.evaluate.cases import Case
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders.rows import read_text
from ragmon.evaluate.ranking import ranked
from ragmon.records import Chunk, QueryRecord


def read_cases(path: Path) -> Iterator[Case]:
    """One case a topic of a qrels file; the topic's number stands for its text.

    Raises:
        DataError: a line does not have four columns, or its grade is no number.
    """
    grades: dict[str, dict[str, float]] = {}
    for line, (topic, _, document, grade) in _columns(path, "topic iteration document grade"):
        grades.setdefault(topic, {})[document] = _number(grade, path, line, "grade")
    for topic, judged in grades.items():
        yield Case(query=topic, case_id=topic, grades=judged)


def read_run(path: Path) -> Iterator[QueryRecord]:
    """One result a topic, ordered by score as trec_eval orders it; the rank column is not read.

    Raises:
        DataError: a line does not have six columns, its score is no number, or a document
            appears twice for a topic.
    """
    scores: dict[str, dict[str, float]] = {}
    for line, (topic, _, document, _, score, _) in _columns(
        path, "topic Q0 document rank score tag"
    ):
        of_topic = scores.setdefault(topic, {})
        if document in of_topic:
            message = f"{document!r} appears twice for topic {topic}"
            hint = "A run ranks a document once a topic"
            raise DataError(message, path=path, line=line, hint=hint)
        of_topic[document] = _number(score, path, line, "score")
    yield from from_scores(scores)


def is_scores(content: Mapping[str, Any]) -> bool:
    """True for {query: {document: score}}, judged by the first query."""
    first = next(iter(content.values()), None)
    return isinstance(first, dict) and all(isinstance(item, int | float) for item in first.values())


def from_scores(scores: Mapping[str, Mapping[str, float]]) -> Iterator[QueryRecord]:
    """Results in the order of their scores."""
    for topic, documents in scores.items():
        chunks = [Chunk(id=key, score=float(documents[key])) for key in ranked(documents)]
        yield QueryRecord(query_id=topic, chunks=chunks)


def _columns(path: Path, names: str) -> Iterator[tuple[int, list[str]]]:
    expected = len(names.split())
    for line, text in enumerate(read_text(path).split("\n"), 1):
        cells = text.split()
        if cells and len(cells) != expected:
            raise DataError(
                f"has {len(cells)} columns, not {expected}",
                path=path,
                line=line,
                hint=f"Write: {names}",
            )
        if cells:
            yield line, cells


def _number(text: str, path: Path, line: int, field: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{text!r} is not a number", path=path, line=line, field=field)
    return number
