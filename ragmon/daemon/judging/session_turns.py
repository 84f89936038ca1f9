"""Texts retrieved in the turns before, by conversation.

The answer to "and how long does that take?" often rests on what was retrieved a turn earlier. What
was retrieved is remembered as answers are read, in their order, and bounded.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ragmon.records import QueryRecord

MOST_CHARACTERS = 2_000_000
"""Of all conversations that are remembered; the one that was silent for longest is forgotten."""

MOST_CHARACTERS_A_TURN = 20_000
"""Chunks behind are forgotten: they were ranked last."""

LONGEST_PAUSE_S = 3_600.0
"""Between two turns of one conversation."""

_MOST_TURNS = 8  # of a conversation that are remembered, for answers that are read late

Chunks = tuple[tuple[str, str], ...]
"""Ids and texts, best first."""


class _RetrievedTurn(NamedTuple):
    query_id: str
    at: float  # unix seconds
    chunks: Chunks

    @property
    def characters(self) -> int:
        return sum(len(text) for _, text in self.chunks)


Earlier = Callable[[QueryRecord], Chunks]
"""Chunks of the turns before a record, the newest turn first."""


def no_turns(_: QueryRecord) -> Chunks:
    """Every answer is judged alone."""
    return ()


class SessionTurns:
    """Remembers conversations; any thread may ask."""

    def __init__(self, turns: int, most_characters: int = MOST_CHARACTERS) -> None:
        """``turns`` before an answer count; 0: nothing is remembered."""
        self._turns = turns
        self._most_characters = most_characters
        self._sessions: OrderedDict[tuple[str, str], deque[_RetrievedTurn]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    @property
    def is_remembering(self) -> bool:
        """False where every answer is judged alone."""
        return self._turns > 0

    @property
    def characters(self) -> int:
        """That are remembered."""
        return self._characters

    def remember(self, records: Iterable[QueryRecord]) -> None:
        """Remember what was retrieved for records, in the order of the log."""
        with self._lock:
            for record in records:
                if self._turns and record.session_id:
                    self._remember((record.pipeline, record.session_id), _turn_of(record))
            while self._characters > self._most_characters:
                _, turns = self._sessions.popitem(last=False)
                self._characters -= sum(turn.characters for turn in turns)

    def _remember(self, session: tuple[str, str], turn: _RetrievedTurn) -> None:
        turns = self._sessions.setdefault(session, deque())
        self._sessions.move_to_end(session)
        if any(turn.query_id == known.query_id for known in turns):
            return
        turns.append(turn)
        self._characters += turn.characters
        if len(turns) > _MOST_TURNS:
            self._characters -= turns.popleft().characters

    def earlier(self, record: QueryRecord) -> Chunks:
        """See ``Earlier``; without what the record's own chunks say."""
        if not record.session_id:
            return ()
        with self._lock:
            turns = list(self._sessions.get((record.pipeline, record.session_id), ()))
        before = [turn for turn in turns if _is_before(turn, record)]
        before.sort(key=lambda turn: turn.at)
        own = {chunk.text for chunk in record.chunks or ()}
        chunks = (chunk for turn in before[: -self._turns - 1 : -1] for chunk in turn.chunks)
        return tuple({text: (name, text) for name, text in chunks if text not in own}.values())

    def clear(self) -> None:
        """Forget everything, because records were erased."""
        with self._lock:
            self._sessions.clear()
            self._characters = 0


def _is_before(turn: _RetrievedTurn, record: QueryRecord) -> bool:
    if turn.query_id == record.query_id:
        return False
    return 0.0 < record.timestamp - turn.at <= LONGEST_PAUSE_S


def _turn_of(record: QueryRecord) -> _RetrievedTurn:
    left, chunks = MOST_CHARACTERS_A_TURN, []
    for chunk in record.chunks or ():
        if chunk.text and len(chunk.text) <= left:
            left -= len(chunk.text)
            chunks.append((chunk.id, chunk.text))
    return _RetrievedTurn(record.query_id, record.timestamp, tuple(chunks))
