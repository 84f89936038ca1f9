"""What happens to a record: pure, driven by the daemon on live traffic and by the evaluator.

``admit`` makes a record fit to be stored, ``observe`` says what it adds to the windows, and
``amend`` folds later feedback and labels into it.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import force_setattr, replace

from ragmon import citations
from ragmon.privacy import apply as apply_privacy
from ragmon.records import Amendments, Feedback, Label, QueryRecord, Verdict
from ragmon.signals.catalogue import Catalogue
from ragmon.windows.observations import Observations, index_dims
from ragmon.windows.series import dims_of

Privacy = Literal["keep", "redact", "drop"]
Change = Feedback | Label | Verdict
"""What may come after its query, and restates it."""


class Pipeline:
    """Records in, observations out."""

    def __init__(
        self, catalogue: Catalogue, slices: tuple[str, ...] = (), privacy: Privacy = "keep"
    ) -> None:
        self.catalogue = catalogue
        self.slices = slices
        self.columns = tuple(column.key for column in catalogue.columns)
        self._privacy = privacy

    def admit(self, record: QueryRecord) -> QueryRecord:
        """The record as it may be stored: citations read from the answer, texts redacted."""
        if record.citations is None and record.answer and record.chunks:
            cited = citations.parse(record.answer, [chunk.id for chunk in record.chunks])
            if cited is not None:
                force_setattr(record, "citations", cited)  # not yet shared with anyone
        return record if self._privacy == "keep" else apply_privacy(record, self._privacy)

    def admit_change(self, change: Change) -> Change:
        """Feedback as it may be stored; labels and verdicts hold no free text of users."""
        if self._privacy == "keep" or not isinstance(change, Feedback):
            return change
        return apply_privacy(change, self._privacy)

    def observe(
        self, records: Sequence[QueryRecord], known: Sequence[Amendments] | None = None
    ) -> Observations:
        """What the records add to the windows, with what was learned of each of them later."""
        if known is not None:
            records = [effective(record, each) for record, each in zip(records, known, strict=True)]
        dims, dim_index = index_dims([dims_of(record, self.slices) for record in records])
        timestamps = np.array([record.timestamp for record in records], dtype=np.float64)
        values = self.catalogue.observe(records, known)
        return Observations(self.slices, dims, dim_index, timestamps, values)


def amend(known: Amendments, change: Change) -> Amendments:
    """What is known after the change; the same object when it says nothing new.

    The newest feedback by its timestamp counts, the newest label of each labeller and the newest
    verdict of each judge. The same again, sent later, says nothing new: clients that leave the
    timestamp out may retry.
    """
    if isinstance(change, Feedback):
        if _says_nothing_new(known.feedback, change):
            return known
        return replace(known, feedback=change)
    if isinstance(change, Verdict):
        given = next((each for each in known.verdicts if each.judge == change.judge), None)
        if _says_nothing_new(given, change):
            return known
        rest = tuple(each for each in known.verdicts if each is not given)
        return replace(known, verdicts=(*rest, change))
    mine = next((label for label in known.labels if label.labeller == change.labeller), None)
    if _says_nothing_new(mine, change):
        return known
    others = tuple(label for label in known.labels if label is not mine)
    return replace(known, labels=(*others, change))


def _says_nothing_new(known: Change | None, change: Change) -> bool:
    if known is None:
        return False
    return known.timestamp >= change.timestamp or change == replace(
        known, timestamp=change.timestamp
    )


def effective(record: QueryRecord, known: Amendments) -> QueryRecord:
    """The record as the signals see it, with later feedback and ground truth in place."""
    changes: dict[str, object] = {}
    if known.feedback is not None:
        changes["feedback"] = known.feedback.rating
    truths = [label for label in known.labels if label.relevant_ids or label.grades]
    if truths:
        newest = max(truths, key=lambda label: label.timestamp)
        changes["relevant_ids"] = newest.relevant_ids
        changes["grades"] = newest.grades
    return replace(record, **changes) if changes else record
