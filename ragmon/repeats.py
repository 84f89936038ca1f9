"""Repeats: the same question by the same user, or session, asked again within a minute.

A client that retries what fails asks one question a hundred times. Rates and counters count every
query; detectors count each question once a minute (``ragmon.detectors.losses``), since what one
person meets is one piece of evidence. ``RepeatTable.number`` writes into each record how many
times its question was asked before in that minute. The number is stored with the record, so that
feedback that comes later, a restart, a replay and a backtest see the same vote.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr

from ragmon.records import QueryRecord

MINUTE_S = 60.0
MOST_QUESTIONS = 65_536
MOST_MINUTES = 120


class Asked(Struct, frozen=True):
    """The fields of a stored record by which repeats are found."""

    timestamp: float
    pipeline: str = "default"
    user_id: str | None = None
    session_id: str | None = None
    query: str | None = None
    repeat: int = field(default=0, name="repeat_number")


class RepeatTable:
    """Count of each question in each of the last minutes, by the records' own time.

    A question is known by a hash of pipeline, user (else session) and text; where neither user
    nor session is known, by the text alone. What has no text is never a repeat. About 90 bytes a
    question, 6 MB at most.
    """

    def __init__(
        self, most_questions: int = MOST_QUESTIONS, most_minutes: int = MOST_MINUTES
    ) -> None:
        """Begin with nothing.

        Args:
            most_questions: that are remembered, of all minutes together.
            most_minutes: that are remembered; the one that began first is forgotten first.
        """
        self.untracked = 0  # queries that could not be remembered, because a minute had too many
        self._most_questions = most_questions
        self._most_minutes = most_minutes
        self._minutes: dict[float, dict[int, int]] = {}
        self._questions = 0

    def __len__(self) -> int:
        """Questions that are remembered."""
        return self._questions

    def number(self, records: Iterable[QueryRecord | Asked]) -> None:
        """Write into each record how often its question was asked before in its minute.

        Args:
            records: in the order of their sequence numbers, and not yet shared with anyone.
        """
        # Every query comes through here: passes over one field each cost least.
        listed = list(records)
        if len(listed) == 1:
            one = listed[0]
            key = hash((one.pipeline, one.user_id or one.session_id, one.query))
            self._number_each(listed, [key])
            return
        texts = [record.query for record in listed]
        pipelines = [record.pipeline for record in listed]
        askers = [record.user_id or record.session_id for record in listed]
        keys = list(map(hash, zip(pipelines, askers, texts, strict=True)))
        times = [record.timestamp for record in listed]
        if all(texts) and self._remember_new(keys, times):
            for record in [record for record in listed if record.repeat]:
                force_setattr(record, "repeat", 0)
        else:
            self._number_each(listed, keys)

    def _remember_new(self, keys: Sequence[int], times: Sequence[float]) -> bool:
        """Remember questions of one minute that are all new; False, and nothing, for any others.

        Args:
            keys: of the questions.
            times: of each, unix seconds.
        """
        if not keys or self._questions + len(keys) > self._most_questions:
            return False
        minute = min(times) // MINUTE_S
        if max(times) // MINUTE_S != minute:
            return False
        new = dict.fromkeys(keys, 1)
        known = self._minutes.get(minute, {}).keys()
        if len(new) < len(keys) or not known.isdisjoint(keys):
            return False
        self._minute(minute).update(new)
        self._questions += len(new)
        return True

    def _number_each(self, records: Sequence[QueryRecord | Asked], keys: Sequence[int]) -> None:
        minute = -1.0
        asked: dict[int, int] = {}
        for record, key in zip(records, keys, strict=True):
            earlier = 0
            if record.query:
                if record.timestamp // MINUTE_S != minute:
                    minute = record.timestamp // MINUTE_S
                    asked = self._minute(minute)
                earlier = asked.get(key, 0)
                if earlier:
                    asked[key] = earlier + 1
                elif self._questions < self._most_questions or self._has_room(minute):
                    asked[key] = 1
                    self._questions += 1
            if earlier != record.repeat:
                force_setattr(record, "repeat", earlier)

    def take_back(self, records: Sequence[QueryRecord]) -> None:
        """Forget records that were numbered and then not stored."""
        for record in records:
            asked = self._minutes.get(record.timestamp // MINUTE_S)
            key = hash((record.pipeline, record.user_id or record.session_id, record.query))
            if asked is None or key not in asked:
                continue
            asked[key] -= 1
            if not asked[key]:
                del asked[key]
                self._questions -= 1

    def _minute(self, minute: float) -> dict[int, int]:
        """The questions of a minute, which begins to be remembered."""
        asked = self._minutes.get(minute)
        if asked is None:
            asked = self._minutes[minute] = {}
            if len(self._minutes) > self._most_minutes:
                self._forget_first(minute)
        return asked

    def _has_room(self, minute: float) -> bool:
        """True where one more question can be remembered; other minutes are forgotten for it."""
        while self._questions >= self._most_questions:
            if not self._forget_first(minute):
                self.untracked += 1
                return False
        return True

    def _forget_first(self, kept: float) -> bool:
        """Forget the minute that has been known for longest, but one; False without another."""
        first = next((minute for minute in self._minutes if minute != kept), None)
        if first is None:
            return False
        self._questions -= len(self._minutes.pop(first))
        return True
