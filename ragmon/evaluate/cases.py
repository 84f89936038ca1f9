"""Cases (questions with what is known to be right) and runs (how a RAG system answered them)."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ragmon.records import Grades, Id, QueryRecord, Text

Texts = list[Annotated[str, Meta(min_length=1)]]
Metadata = dict[str, str | int | float | bool | None]
Run = Mapping[str, QueryRecord]
"""By case id: the query as it was answered, in the form in which the daemon takes it."""


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question of a golden set. ``None``: unknown; the metrics that need it leave it out."""

    query: Text
    case_id: Annotated[str, Meta(max_length=256)] = ""  # made from the query when absent
    ground_truth_answer: Text | None = None
    relevant_doc_ids: list[Id] | None = None
    grades: Grades | None = None  # by id; above 0 is relevant, 0 was judged irrelevant
    keywords: Texts | None = None  # words that good chunks hold
    facets: dict[str, list[Id]] | None = None  # the ids that cover each side of the question
    nuggets: Texts | None = None  # short facts that the chunks should hold
    claims: Texts | None = None  # statements that a complete answer makes
    metadata: Metadata = {}

    @property
    def judgements(self) -> dict[str, float]:
        """Grades by id; plain relevance counts as grade 1."""
        judged = dict.fromkeys(self.relevant_doc_ids or (), 1.0)
        return judged | {key: float(grade) for key, grade in (self.grades or {}).items()}

    @property
    def answerable(self) -> bool:
        """True if some id is known to be relevant."""
        return any(grade > 0 for grade in self.judgements.values())


class CaseSet(Struct, frozen=True):
    """A golden set as loaded."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()  # peculiarities of the data, for the report
    corpus: Path | None = None  # BEIR's corpus.jsonl: the texts behind the ids


class Labelled(NamedTuple):
    """Cases with the run that answered them, and human verdicts on those very answers."""

    cases: CaseSet
    run: Run
    faithful: Mapping[str, float] = {}  # in [0, 1], by case id


def id_of(query: str) -> str:
    """An id for a case that has none: the same for the same question in any file."""
    return hashlib.sha256(query.strip().encode()).hexdigest()[:12]


def text_id(text: str) -> str:
    """An id for a chunk known by its text alone; white space does not count."""
    return "text:" + hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def by_case(cases: Iterable[Case], run: Run) -> dict[str, QueryRecord]:
    """The run by case id; a result under another id belongs to the case with the same query."""
    cases = list(cases)
    open_cases = {
        _normalised(case.query): case.case_id for case in cases if case.case_id not in run
    }
    ids = {case.case_id for case in cases}
    matched = {}
    for key, record in run.items():
        same = None if key in ids else open_cases.pop(_normalised(record.query or ""), None)
        matched[key if same is None else same] = record
    return matched


def _normalised(query: str) -> str:
    return " ".join(query.split()).casefold()


def unmatched(cases: Iterable[Case], run: Run) -> tuple[list[str], list[str]]:
    """(case ids without a result, results without a case)."""
    ids = {case.case_id for case in cases}
    return sorted(ids - run.keys()), sorted(run.keys() - ids)


def relevant_and_retrieved(cases: Iterable[Case], run: Run) -> tuple[set[str], set[str]]:
    """(relevant ids of all cases, those of them that some query retrieved).

    An empty second set means that labels and index use different ids.
    """
    relevant = {key for case in cases for key, grade in case.judgements.items() if grade > 0}
    retrieved = {chunk.id for record in run.values() for chunk in record.chunks or ()}
    return relevant, relevant & retrieved
