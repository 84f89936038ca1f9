"""Pipeline of a record: pure, driven by the daemon on live traffic and by the evaluator.

``admit`` makes a record fit to be stored, ``observe`` gives what it adds to the windows, and
``amend`` folds later feedback and labels into it.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import force_setattr, replace

from ragmon import citations
from ragmon.privacy import apply as apply_privacy
from ragmon.privacy import redact_text
from ragmon.records import Amendments, Draw, Feedback, Label, QueryRecord, Verdict
from ragmon.signals import verdict_sums
from ragmon.signals.catalogue import Catalogue
from ragmon.windows.observations import Observations, Sparse, index_dims
from ragmon.windows.series import dims_of_each

Privacy = Literal["keep", "redact", "drop"]
Change = Feedback | Label | Verdict | Draw
"""Information that may come after its query, and restates it."""


class Pipeline:
    """Records in, observations out."""

    def __init__(
        self, catalogue: Catalogue, slices: tuple[str, ...] = (), privacy: Privacy = "keep"
    ) -> None:
        self.catalogue = catalogue
        self.slices = slices
        self.columns = tuple(column.key for column in catalogue.columns)
        self.judged = verdict_sums.layout_of(catalogue.columns)
        self._drawn = tuple(each.name for each in catalogue.options.custom if each.is_sampled)
        self._privacy = privacy

    def admit(self, record: QueryRecord) -> QueryRecord:
        """The record as it may be stored: citations read from the answer, texts redacted."""
        if record.citations is None and record.answer and record.chunks:
            cited = citations.parse(record.answer, [chunk.id for chunk in record.chunks])
            if cited is not None:
                force_setattr(record, "citations", cited)  # not yet shared with anyone
        return record if self._privacy == "keep" else apply_privacy(record, self._privacy)

    def revise(
        self, record: QueryRecord, known: Amendments, mapped: QueryRecord
    ) -> tuple[Amendments, bool]:
        """The amendments after a query was mapped again, and whether that says anything new.

        Its time and its series stay those that it was counted in. Verdicts about texts that were
        not the whole go; a rating by its user stays.
        """
        slices = {name: value for name, value in (record.tags or {}).items() if name in self.slices}
        others = {k: v for k, v in (mapped.tags or {}).items() if k not in self.slices}
        before = known.revision or record
        revision = replace(
            self.admit(mapped),
            query_id=record.query_id,
            timestamp=record.timestamp,
            pipeline=record.pipeline,
            version=record.version,
            repeat=record.repeat,
            tags={**others, **slices} or None,
        )
        if revision == before:
            return known, False
        verdicts = known.verdicts if _reads_alike(before, revision) else ()
        return replace(known, revision=revision, verdicts=verdicts), True

    def admit_change(self, change: Change) -> Change:
        """Feedback, a label or a verdict as it may be stored: judges quote what users wrote."""
        if self._privacy == "keep" or isinstance(change, Draw):
            return change
        if isinstance(change, Verdict):
            return _without_quotes(change, self._privacy)
        return apply_privacy(change, self._privacy)

    def observe(
        self, records: Sequence[QueryRecord], known: Sequence[Amendments] | None = None
    ) -> Observations:
        """Observations of the records, with the amendments that came after each of them."""
        if known is not None:
            records = [effective(*pair) for pair in zip(records, known, strict=True)]
        dims, dim_index = index_dims(dims_of_each(records, self.slices))
        timestamps = np.array([record.timestamp for record in records], dtype=np.float64)
        values = self.catalogue.observe(records, known)
        sums = None
        if known is not None:
            sums = verdict_sums.observe(records, known, self.judged, self._drawn)
        sparse = Sparse(self.judged.names, *sums) if sums is not None else None
        return Observations(self.slices, dims, dim_index, timestamps, values, sparse)


def amend(known: Amendments, change: Change) -> tuple[Amendments, bool]:
    """The amendments after a change, and whether it says anything new.

    The newest feedback by its timestamp counts, the newest label of each labeller and the newest
    verdict of each judge; a labeller's relevance and faithfulness count apart, and a withdrawal
    takes back both. The same again, sent later, is not new (clients that leave the timestamp out
    may retry), but takes the later timestamp. An answer is drawn once in each round.

    Returns:
        The same ``known`` where nothing is to be remembered.
    """
    if isinstance(change, Draw):
        is_later = known.draw is None or change.round > known.draw.round
        return (replace(known, draw=change) if is_later else known), is_later
    if isinstance(change, Label) and (change.withdrawn or _is_withdrawn(known, change)):
        return _without(known, change)
    previous = _previous(known, change)
    if previous is not None and previous.timestamp >= change.timestamp:
        return known, False
    is_new = previous is None or change != replace(previous, timestamp=change.timestamp)
    if isinstance(change, Feedback):
        return replace(known, feedback=change), is_new
    if isinstance(change, Verdict):
        verdicts = (each for each in known.verdicts if each is not previous)
        return replace(known, verdicts=(*verdicts, change)), is_new
    labels = (each for each in known.labels if each is not previous)
    return replace(known, labels=(*labels, change)), is_new


def _is_withdrawn(known: Amendments, label: Label) -> bool:
    """True for a label that its labeller took back, maybe before it came."""
    return any(
        other.withdrawn and other.labeller == label.labeller and other.timestamp >= label.timestamp
        for other in known.labels
    )


def _without(known: Amendments, withdrawal: Label) -> tuple[Amendments, bool]:
    """The amendments without what a labeller said until then; the withdrawal stays in its place."""
    if _is_withdrawn(known, withdrawal):
        return known, False
    taken = [
        label
        for label in known.labels
        if label.labeller == withdrawal.labeller and label.timestamp <= withdrawal.timestamp
    ]
    is_new = not taken or not all(label.withdrawn for label in taken)
    kept = [label for label in known.labels if label not in taken]
    return replace(known, labels=(*kept, withdrawal)), is_new


def _without_quotes(verdict: Verdict, privacy: Privacy) -> Verdict:
    if not (verdict.rationale or verdict.doubts):
        return verdict
    clean = redact_text if privacy == "redact" else _nothing
    doubts = tuple(replace(each, detail=clean(each.detail)) for each in verdict.doubts)
    return replace(verdict, rationale=clean(verdict.rationale), doubts=doubts)


def _nothing(_: str) -> str:
    return ""


def _previous(
    known: Amendments, change: Feedback | Label | Verdict
) -> Feedback | Label | Verdict | None:
    """The feedback, label or verdict of the query that the change would replace."""
    if isinstance(change, Feedback):
        return known.feedback
    if isinstance(change, Verdict):
        return next((each for each in known.verdicts if each.judge == change.judge), None)
    same = (each for each in known.labels if each.labeller == change.labeller)
    return next((each for each in same if _topics(each) == _topics(change)), None)


def effective(record: QueryRecord, known: Amendments) -> QueryRecord:
    """The record as the signals see it, with what came later in place."""
    record = known.revision or record
    changes: dict[str, object] = {}
    if known.feedback is not None:
        changes["feedback"] = known.feedback.rating
    truths = [each for each in known.labels if _is_about_relevance(each)]
    if truths:
        newest = max(truths, key=lambda label: label.timestamp)
        changes["relevant_ids"] = newest.relevant_ids
        changes["grades"] = newest.grades
    return replace(record, **changes) if changes else record


def _reads_alike(before: QueryRecord, after: QueryRecord) -> bool:
    """True for two records of which a judge reads the same."""
    return (before.query, before.answer, before.chunks) == (after.query, after.answer, after.chunks)


def _topics(label: Label) -> tuple[bool, bool, frozenset[str]]:
    """(is about relevance, is about faithfulness, custom judges whose question it answers)."""
    return _is_about_relevance(label), label.faithful is not None, frozenset(label.scores)


def _is_about_relevance(label: Label) -> bool:
    return label.relevant_ids is not None or label.grades is not None
