"""A large submission in parts, so that what else waits for the writer has its turn in between."""

import threading
from collections.abc import Callable
from dataclasses import replace

from ragmon.sources import IngestOutcome, Submission


def size_of(submission: Submission) -> int:
    """Records and changes."""
    return len(submission.records) + len(submission.changes)


def split(submission: Submission, most: int) -> tuple[Submission, Submission]:
    """The first records and changes of a submission, and the rest.

    It is answered once both are. If either fails its error is the answer, and the sender repeats
    all of it: what was kept is then a duplicate.

    Args:
        submission: of more than ``most``, without an offset, which belongs to the whole.
        most: records and changes of the first part.
    """
    records = min(most, len(submission.records))
    changes = most - records
    size_bytes = submission.size_bytes * most // size_of(submission)
    answer = _JointAnswer(submission.reply, changes)
    first = replace(
        submission,
        size_bytes=size_bytes,
        reply=answer.first,
        records=submission.records[:records],
        changes=submission.changes[:changes],
        refused=[],
    )
    rest = replace(
        submission,
        size_bytes=submission.size_bytes - size_bytes,
        reply=answer.rest,
        records=submission.records[records:],
        changes=submission.changes[changes:],
        refused=[],
    )
    return first, rest


class _JointAnswer:
    """One answer out of those to two parts."""

    def __init__(self, reply: Callable[[IngestOutcome], None], changes: int) -> None:
        self._reply = reply
        self._changes = changes  # of the first part
        self._outcomes: dict[int, IngestOutcome] = {}
        self._lock = threading.Lock()

    def first(self, outcome: IngestOutcome) -> None:
        """Answer to the first part."""
        self._note(0, outcome)

    def rest(self, outcome: IngestOutcome) -> None:
        """Answer to the rest."""
        self._note(1, outcome)

    def _note(self, part: int, outcome: IngestOutcome) -> None:
        with self._lock:
            self._outcomes[part] = outcome
            if len(self._outcomes) < 2:
                return
        first, rest = self._outcomes[0], self._outcomes[1]
        moved = [(self._changes + position, reason) for position, reason in rest.refused]
        self._reply(
            IngestOutcome(
                first.accepted + rest.accepted,
                first.duplicates + rest.duplicates,
                [*first.refused, *moved],
                first.error or rest.error,
            )
        )
