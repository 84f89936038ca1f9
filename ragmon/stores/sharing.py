"""Ports of a store that several processes write: the views that the one that counts has of it."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from ragmon.records import Positions
from ragmon.stores import Hashes, InboxRow, JournalEntry, ShardProgress


class Follower(Protocol):
    """A view of what other processes commit; for one thread."""

    def progress(self) -> Mapping[int, ShardProgress]:
        """Progress of the owners of the other shards."""
        ...

    def follow(self, after: Positions) -> Iterator[JournalEntry | dict[int, ShardProgress]]:
        """Entries committed after these positions, then the progress of the shards with them.

        All of it is read from one moment. It ends early, and the lease is lost, where the store
        went back to before one of the positions.
        """
        ...

    def close(self) -> None:
        """Release the view."""
        ...


class OtherShards(Protocol):
    """Ids of the queries that other processes store; for any thread."""

    def find_many(self, hashes: Hashes, *, newest_only: bool = False) -> list[int | None]:
        """Numbers of stored records, in the order of their hashes; None: not stored there.

        Args:
            hashes: of ids.
            newest_only: whether to look among those only that no index of ids holds yet, and all
                that were committed since the last call: the others cost a look at each index.
        """
        ...

    def handed(self, kind: str) -> set[int]:
        """Numbers of the records for which changes of a kind wait, until their owner commits."""
        ...

    def answers(self, kind: str) -> list[InboxRow]:
        """Rows of a kind that were handed to the evaluator's own shard."""
        ...

    def progress(self) -> Mapping[int, float | None]:
        """Time until which the log is committed, by shard; None: its owner has not told yet."""
        ...

    def handed_count(self) -> int:
        """Number of changes that wait for the owners of shards."""
        ...

    def close(self) -> None:
        """Release the view."""
        ...
