"""Loaders: cases and runs from files of many forms.

| | cases | runs |
|---|---|---|
| ``.jsonl`` ``.json`` ``.csv`` | ``Case`` or RAGAS fields | ``QueryRecord`` or RAGAS fields |
| ragmon's own export | queries with labels | the same file |
| OpenTelemetry export, JSON or protobuf | | its queries, matched by their text |
| BEIR folder | ``queries.jsonl`` and ``qrels/*.tsv`` | |
| TREC | qrels: four columns | run: six columns |
| ``{query: {document: score}}`` as ``.json`` | | as pytrec_eval and BEIR write it |

A file that holds both is given once; each may be compressed (``.gz``). Unusable data are a
``DataError`` with file, line and field; fields that nothing reads become a note of the report.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from ragmon.evaluate.cases import Case, CaseSet, Run, id_of
from ragmon.evaluate.errors import NAME_A_RUN, DataError
from ragmon.evaluate.loaders import beir, traces, trec
from ragmon.evaluate.loaders.fields import Ignored, case_of, record_of
from ragmon.evaluate.loaders.rows import ending, read_json, rows
from ragmon.records import QueryRecord

Item = TypeVar("Item")

_TREC = frozenset({".qrels", ".qrel", ".trec", ".run", ".txt", ".res"})


def holds_no_answers(path: Path) -> bool:
    """True if a golden set is of a kind that never holds a system's answers."""
    return path.is_dir() or ending(path) in _TREC


def read_cases(path: Path, *, split: str = "") -> CaseSet:
    """A golden set.

    Args:
        path: a file, or a BEIR folder.
        split: of a BEIR folder: which ``qrels/SPLIT.tsv``; test when there is one.

    Raises:
        DataError: it cannot be read, or holds no case.
    """
    if path.is_dir():
        return beir.read_cases(path, split)
    if ending(path) in _TREC:
        return _case_set(path, ((0, case) for case in trec.read_cases(path)), ())
    ignored = Ignored()
    numbered = ((line, case_of(row, path, line, ignored)) for line, row in rows(path))
    return _case_set(path, numbered, ignored)


def read_run(path: Path) -> Run:
    """A run: the answers of a system by case id.

    Raises:
        DataError: it cannot be read, or holds no result.
    """
    if path.is_dir():
        raise DataError("is a folder, not a run", path=path, hint=NAME_A_RUN)
    if ending(path) in _TREC:
        return _by_id(path, ((0, record) for record in trec.read_run(path)))
    if traces.is_trace_export(path):
        return _by_id(path, ((0, record) for record in traces.read_run(path)))
    if ending(path) == ".json":
        content = read_json(path)
        if isinstance(content, dict) and trec.is_scores(content):
            return _by_id(path, ((0, record) for record in trec.from_scores(content)))
    return _by_id(path, ((line, record_of(row, path, line)) for line, row in rows(path)))


def write_run(path: Path, run: Run) -> None:
    """Record a run, so that it can be judged again without the service.

    Raises:
        DataError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.Encoder().encode_lines(run.values()))
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", path=path) from error


def with_texts(run: Run, corpus: Path | None) -> Run:
    """The run with the texts of its chunks filled in from a corpus, where it holds them."""
    return run if corpus is None else beir.with_texts(run, corpus)


def _case_set(path: Path, numbered: Iterable[tuple[int, Case]], ignored: Iterable[str]) -> CaseSet:
    keyed = ((line, case.case_id, case) for line, case in numbered)
    hint = "Give every case an id of its own (without one the query is the id)"
    cases = _unique(path, keyed, "case_id", hint)
    if not cases:
        raise DataError("holds no case", path=path, hint='Write one a line: {"query": …}')
    return CaseSet(tuple(cases.values()), tuple(ignored))


def _by_id(path: Path, numbered: Iterable[tuple[int, QueryRecord]]) -> dict[str, QueryRecord]:
    keyed = ((line, record.query_id, record) for line, record in _identified(numbered))
    run = _unique(path, keyed, "query_id", "A run holds one result a case")
    if not run:
        raise DataError("holds no result", path=path, hint=NAME_A_RUN)
    return run


def _unique(
    path: Path, keyed: Iterable[tuple[int, str, Item]], field: str, hint: str
) -> dict[str, Item]:
    """Items by key; a key that appears twice is a ``DataError``."""
    items: dict[str, Item] = {}
    for line, key, item in keyed:
        if key in items:
            message = f"{key!r} appears twice"
            raise DataError(message, path=path, line=line or None, field=field, hint=hint)
        items[key] = item
    return items


def _identified(
    numbered: Iterable[tuple[int, QueryRecord]],
) -> Iterator[tuple[int, QueryRecord]]:
    """Every record with an id: that of its query where it has none."""
    for line, record in numbered:
        if record.query_id:
            yield line, record
        else:
            yield line, replace(record, query_id=id_of(record.query or ""))
