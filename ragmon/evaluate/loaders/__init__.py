"""Cases and runs from files, whatever wrote them.

| | cases | runs |
|---|---|---|
| ``.jsonl`` ``.json`` ``.csv`` | ``Case`` or RAGAS fields | ``QueryRecord`` or RAGAS fields |
| ragmon's own export | queries with labels | the same file |
| OpenTelemetry export, JSON or protobuf | | its queries, matched by their text |
| BEIR folder | ``queries.jsonl`` and ``qrels/*.tsv`` | |
| TREC | qrels: four columns | run: six columns |
| ``{query: {document: score}}`` as ``.json`` | | as pytrec_eval and BEIR write it |

A file that holds both is given once; each may be compressed (``.gz``). What cannot be used is a
``DataError`` with file, line and field; what is merely odd becomes a note of the report.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ragmon.evaluate.cases import Case, CaseSet, Run, id_of
from ragmon.evaluate.errors import NAME_A_RUN, DataError
from ragmon.evaluate.loaders import beir, traces, trec
from ragmon.evaluate.loaders.fields import Ignored, case_of, record_of
from ragmon.evaluate.loaders.rows import ending, read_json, rows
from ragmon.records import QueryRecord

_TREC = frozenset({".qrels", ".qrel", ".trec", ".run", ".txt", ".res"})


def holds_no_answers(path: Path) -> bool:
    """Whether a golden set is of a kind that never holds what a system answered."""
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
        return _checked(path, ((0, case) for case in trec.read_cases(path)), ())
    ignored = Ignored()
    found = ((line, case_of(row, path, line, ignored)) for line, row in rows(path))
    return _checked(path, found, ignored)


def read_run(path: Path) -> Run:
    """What a system answered, by case id.

    Raises:
        DataError: it cannot be read, or holds no result.
    """
    if path.is_dir():
        raise DataError("is a folder, which holds no run", path=path, hint=NAME_A_RUN)
    if ending(path) in _TREC:
        return _by_id(path, ((0, record) for record in trec.read_run(path)))
    if traces.is_trace_export(path):
        return _by_id(path, ((0, record) for record in traces.read_run(path)))
    if ending(path) == ".json":
        held = read_json(path)
        if isinstance(held, dict) and trec.is_scores(held):
            return _by_id(path, ((0, record) for record in trec.from_scores(held)))
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
    """The run with the texts of its chunks, where a corpus holds them."""
    return run if corpus is None else beir.with_texts(run, corpus)


def _checked(path: Path, found: Iterable[tuple[int, Case]], ignored: Iterable[str]) -> CaseSet:
    cases: dict[str, Case] = {}
    for line, case in found:
        if case.case_id in cases:
            raise DataError(
                f"{case.case_id!r} appears twice",
                path=path,
                line=line or None,
                field="case_id",
                hint="Give every case an id of its own (without one the query is the id)",
            )
        cases[case.case_id] = case
    if not cases:
        raise DataError("holds no case", path=path, hint='Write one a line: {"query": …}')
    return CaseSet(tuple(cases.values()), tuple(ignored))


def _by_id(path: Path, found: Iterable[tuple[int, QueryRecord]]) -> dict[str, QueryRecord]:
    run: dict[str, QueryRecord] = {}
    for line, record in _identified(found):
        if record.query_id in run:
            raise DataError(
                f"{record.query_id!r} appears twice",
                path=path,
                line=line or None,
                field="query_id",
                hint="A run holds one result a case",
            )
        run[record.query_id] = record
    if not run:
        raise DataError("holds no result", path=path, hint=NAME_A_RUN)
    return run


def _identified(found: Iterable[tuple[int, QueryRecord]]) -> Iterator[tuple[int, Any]]:
    for line, record in found:
        yield (
            line,
            record if record.query_id else replace(record, query_id=id_of(record.query or "")),
        )
