"""Erasure of one person's content from stored records, while what was counted stays.

What goes: every text, every id that leads to a person or into another system, tags, and the ids
of chunks, which may be names of somebody's files. What stays is what the windows counted already:
time, pipeline, version, model, scores, latencies, tokens, cost and the rating as a number. Under
the seed of the store, the hash of the query id stays as well, so that a batch sent twice does not
bring the content back.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragmon.records import (
    Amendments,
    AnswerStep,
    Chunk,
    Draw,
    Feedback,
    Label,
    QueryRecord,
    Verdict,
)

ERASED = "erased:"
"""Begins the id of a record whose content was erased; the hash of its id follows."""

ERASED_TEXT = "[erased]"
"""Stands for an error text, because a query without one would count as answered."""

Kind = Literal["user", "session"]


class Subject(Struct, frozen=True, kw_only=True):
    """The user or session whose content is erased."""

    kind: Kind
    id: str
    pipeline: str = ""  # only in this one; empty: in all

    def owns(self, user_id: str | None, session_id: str | None, pipeline: str) -> bool:
        """True for a record with these ids."""
        owner = user_id if self.kind == "user" else session_id
        return owner == self.id and self.pipeline in ("", pipeline)


class Aliases:
    """Names that stand for the ids of one record, the same wherever an id occurs."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The alias of one id."""
        return self._names.setdefault(name, f"c{len(self._names) + 1}")

    def of_all(self, names: Iterable[str] | None) -> list[str] | None:
        """The aliases of several; None for None."""
        return None if names is None else [self.of(name) for name in names]

    def of_keys(self, grades: dict[str, float] | None) -> dict[str, float] | None:
        """Grades by alias; None for None."""
        return None if grades is None else {self.of(key): grade for key, grade in grades.items()}


def is_erased(query_id: str) -> bool:
    """True for the id of a record whose content was erased."""
    return query_id.startswith(ERASED)


def erased_id(query_hash: int) -> str:
    """The id that a record has from then on."""
    return f"{ERASED}{query_hash:016x}"


def erase(record: QueryRecord, name: str, aliases: Aliases) -> QueryRecord:
    """The record without content; the signals say of it what they said before.

    Args:
        record: as stored.
        name: its id from now on, see ``erased_id``.
        aliases: empty; afterwards those of the record, for ``erase_amendments``.
    """
    chunks = record.chunks and [Chunk(aliases.of(each.id), each.score) for each in record.chunks]
    return QueryRecord(
        query_id=name,
        timestamp=record.timestamp,
        pipeline=record.pipeline,
        version=record.version,
        chunks=chunks,
        citations=aliases.of_all(record.citations),
        latency_ms=record.latency_ms,
        feedback=record.feedback,
        relevant_ids=aliases.of_all(record.relevant_ids),
        grades=aliases.of_keys(record.grades),
        error=None if record.error is None else ERASED_TEXT,
        model=record.model,
        tokens=record.tokens,
        cost_usd=record.cost_usd,
        environment=record.environment,
        steps=record.steps
        and [
            AnswerStep(kind=step.kind, chunk_ids=aliases.of_all(step.chunk_ids), failed=step.failed)
            for step in record.steps
        ],
        query_answer_similarity=record.query_answer_similarity,
    )


def erase_amendments(known: Amendments, name: str, aliases: Aliases) -> Amendments:
    """Later feedback, labels and verdicts of an erased record, without their texts.

    Args:
        known: as stored.
        name: the id of the record from now on.
        aliases: of its chunks.
    """
    return Amendments(
        feedback=known.feedback and _feedback(known.feedback, name),
        labels=tuple(_label(label, name, aliases) for label in known.labels),
        verdicts=tuple(_verdict(verdict, name, aliases) for verdict in known.verdicts),
        draw=known.draw and _draw(known.draw, name),
        revision=known.revision and erase(known.revision, name, aliases),
    )


def _feedback(feedback: Feedback, name: str) -> Feedback:
    return replace(feedback, query_id=name, comment=None)


def _label(label: Label, name: str, aliases: Aliases) -> Label:
    return replace(
        label,
        query_id=name,
        relevant_ids=aliases.of_all(label.relevant_ids),
        grades=aliases.of_keys(label.grades),
    )


def _verdict(verdict: Verdict, name: str, aliases: Aliases) -> Verdict:
    useful = aliases.of_all(verdict.useful)
    return replace(
        verdict,
        query_id=name,
        doubts=tuple(replace(doubt, detail="") for doubt in verdict.doubts),
        useful=None if useful is None else tuple(useful),
        rationale="",
        reason=ERASED_TEXT if verdict.reason else "",
    )


def _draw(draw: Draw, name: str) -> Draw:
    return replace(draw, query_id=name)
