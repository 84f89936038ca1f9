"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.evaluate.cases import Case, CaseSet, Metadata, Run
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders.rows import rows
from ragmon.records import Chunk

_HEADER = "query-id corpus-id score"


class _Document(Struct, frozen=True):
    _id: str
    text: str = ""
    title: str = ""


def read_cases(folder: Path, split: str = "") -> CaseSet:
    """The judged queries of one split.

    Raises:
        DataError: a file is missing or malformed, or a judged query has no text.
    """
    judgements = _judgements(folder / "qrels", split)
    grades: dict[str, dict[str, float]] = {}
    for line, query, document, grade in _judged(judgements):
        grades.setdefault(query, {})[document] = grade
        if not query or not document:
            raise DataError("has an empty id", path=judgements, line=line)
    cases = tuple(_cases(folder / "queries.jsonl", grades))
    if len(cases) < len(grades):
        missing = sorted(grades.keys() - {case.case_id for case in cases})
        raise DataError(
            f"judges {len(missing)} queries that queries.jsonl does not hold: {missing[0]!r}",
            path=judgements,
            hint="Add them to queries.jsonl, or remove their judgements",
        )
    corpus = folder / "corpus.jsonl"
    return CaseSet(cases, corpus=corpus if corpus.is_file() else None)


def with_texts(run: Run, corpus: Path) -> Run:
    """The run with the texts of its chunks; the corpus is read once, and only those are kept."""
    missing = {
        chunk.id for record in run.values() for chunk in record.chunks or () if chunk.text is None
    }
    texts = dict(_texts(corpus, missing))
    return {
        key: replace(record, chunks=[_filled(chunk, texts) for chunk in record.chunks])
        if record.chunks
        else record
        for key, record in run.items()
    }


def _judgements(folder: Path, split: str) -> Path:
    splits = {path.stem: path for path in sorted(folder.glob("*.tsv"))}
    if split in splits:
        return splits[split]
    if not split and (len(splits) == 1 or "test" in splits):
        return splits.get("test") or next(iter(splits.values()))
    if not splits:
        hint = "A BEIR folder holds queries.jsonl, qrels/SPLIT.tsv and, for texts, corpus.jsonl"
        raise DataError("holds no judgements (.tsv)", path=folder, hint=hint)
    known = ", ".join(splits)
    which = f"no split {split!r}; there are" if split else "several splits; there are"
    raise DataError(f"{which}: {known}", path=folder, hint="Choose one with --split NAME")


def _judged(path: Path) -> Iterator[tuple[int, str, str, float]]:
    for line, row in rows(path):
        try:
            yield line, row["query-id"], row["corpus-id"], _finite(row["score"])
        except KeyError as error:
            field, hint = str(error.args[0]), f"Begin with the line: {_HEADER}, split by tabs"
            raise DataError("is missing", path=path, line=line, field=field, hint=hint) from error
        except ValueError as error:
            raise DataError("is not a number", path=path, line=line, field="score") from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _cases(path: Path, grades: dict[str, dict[str, float]]) -> Iterator[Case]:
    for line, row in rows(path):
        key, text = row.get("_id"), row.get("text")
        if not isinstance(key, str) or not isinstance(text, str):
            field = "text" if isinstance(key, str) else "_id"
            raise DataError("is missing", path=path, line=line, field=field)
        if key in grades:
            fields = row.get("metadata")
            metadata: Metadata = {}
            if isinstance(fields, dict):
                metadata = {k: v for k, v in fields.items() if isinstance(v, str | int | float)}
            yield Case(query=text, case_id=key, grades=grades[key], metadata=metadata)


def _texts(corpus: Path, ids: set[str]) -> Iterator[tuple[str, str]]:
    decode = msgspec.json.Decoder(_Document).decode
    with corpus.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                document = decode(line)
            except msgspec.MsgspecError as error:
                raise DataError(f"is not a document: {error}", path=corpus, line=number) from error
            if document._id in ids:
                yield document._id, f"{document.title}\n{document.text}".strip()


def _filled(chunk: Chunk, texts: dict[str, str]) -> Chunk:
    return replace(chunk, text=texts[chunk.id]) if chunk.id in texts else chunk
