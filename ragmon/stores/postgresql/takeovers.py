"""Take-overs of shards, by which an evaluator recognises that the database forgot commits.

A failover to an asynchronous standby forgets the last commits. The owner of a shard notices, since
its next commit moves no row, and takes the shard anew where the database is now. An evaluator has
counted what was forgotten, and once as many records are committed again their number tells nothing.
So each take-over has a mark of its own and says where it began: what was counted during one has to
end before the next (decision 35).
"""

import secrets
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from ragmon.errors import StoreFencedError
from ragmon.records import ONLY_SHARD, Position, Positions
from ragmon.stores.postgresql.database import Cursor, PostgresDatabase

KEPT = 64
"""Take-overs of one shard that are remembered; whoever counted before them begins anew."""

_BEGIN = "UPDATE @.shards SET takeover = %s WHERE shard = %s"
_ADD = (
    "INSERT INTO @.takeovers SELECT shard, (SELECT coalesce(max(number), 0) + 1 FROM @.takeovers"
    " AS before WHERE before.shard = shards.shard), takeover, next_sequence, last_restatement"
    " FROM @.shards WHERE shard = %s RETURNING number"
)
_EXPIRE = "DELETE FROM @.takeovers WHERE shard = %s AND number <= %s"
_NOW = "SELECT shard, takeover, next_sequence, last_restatement FROM @.shards WHERE shard <> %s"
_BEGUN = (
    "SELECT shard, mark, sequence, restatement FROM @.takeovers WHERE shard = ANY(%s)"
    " ORDER BY shard, number"
)

Ask = Callable[..., list[Any]]
"""The rows of a query with its values."""


def record_takeover(database: PostgresDatabase, cursor: Cursor, shard: int) -> None:
    """Note where an owner begins, in the transaction that raises the epoch of its shard."""
    database.execute(cursor, _BEGIN, secrets.randbits(63), shard)
    [(number,)] = database.execute(cursor, _ADD, shard).fetchall()
    database.execute(cursor, _EXPIRE, shard, number - KEPT)


class WentBack(NamedTuple):
    """A shard of which more was counted than the database still has."""

    shard: int
    counted: Position
    kept: Position  # of what was counted


class CountedTakeovers:
    """The take-overs that an evaluator knew when it counted."""

    def __init__(self, database: PostgresDatabase) -> None:
        """Read them, before anything that was counted is loaded."""
        self._marks: dict[int, int | None] = {
            shard: mark for shard, mark, *_ in database.rows(_NOW, ONLY_SHARD)
        }

    def look(self, database: PostgresDatabase, counted: Positions) -> WentBack | None:
        """Find a shard that went back; without one the take-overs of this moment are known."""
        marks, went_back = self._compared(database.rows, counted)
        if went_back is None:
            self._marks = marks
        return went_back

    def require(self, database: PostgresDatabase, cursor: Cursor, counted: Positions) -> None:
        """Refuse to save what was counted where the database has forgotten some of it.

        Args:
            database: of the writer.
            cursor: of the transaction that saves.
            counted: positions, by shard.

        Raises:
            StoreFencedError: it has.
        """
        if counted.keys() <= {ONLY_SHARD}:
            return

        def ask(sql: str, *values: object) -> list[Any]:
            return database.execute(cursor, sql, *values).fetchall()

        _, went_back = self._compared(ask, counted)
        if went_back is not None:
            database.fenced += 1
            raise StoreFencedError(
                f"the database of this store went back to an older state: of shard"
                f" {went_back.shard} it has forgotten queries that were counted",
                hint="This one must not write any more; a start reads what is there",
            )

    def _compared(
        self, ask: Ask, counted: Positions
    ) -> tuple[dict[int, int | None], WentBack | None]:
        """The marks now, and a shard of which more was counted than is kept."""
        marks: dict[int, int | None] = {}
        kept: dict[int, Position] = {}
        for shard, mark, *position in ask(_NOW, ONLY_SHARD):
            marks[shard] = mark
            kept[shard] = Position(*position)
        changed = [shard for shard in marks if marks[shard] != self._marks.get(shard)]
        begun: dict[int, list[tuple[int, Position]]] = defaultdict(list)
        for shard, mark, *position in ask(_BEGUN, changed) if changed else ():
            begun[shard].append((mark, Position(*position)))
        for shard in changed:
            kept[shard] = _end(self._marks.get(shard), begun[shard]) or kept[shard]
        for shard, position in counted.items():
            if shard in kept and _is_beyond(position, kept[shard]):
                return marks, WentBack(shard, position, kept[shard])
        return marks, None


def _end(known: int | None, begun: list[tuple[int, Position]]) -> Position | None:
    """The position at which the take-over after a known one began; None: none did.

    Args:
        known: its mark; None: the shard was new, or its owner of a version that tells nothing.
        begun: marks of take-overs, and where they began, from old to new.
    """
    marks = [mark for mark, _ in begun]
    if known is not None and known not in marks:
        return Position()
    after = 0 if known is None else marks.index(known) + 1
    return begun[after][1] if after < len(begun) else None


def _is_beyond(counted: Position, kept: Position) -> bool:
    return counted.sequence > kept.sequence or counted.restatement > kept.restatement
