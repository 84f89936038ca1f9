"""Outcomes of deliveries on their way into the store, without waiting for each."""

from concurrent.futures import Future

from ragmon.errors import StoreError
from ragmon.stores.protocols import Outbox, Settled
from ragmon.threads import OnWriter, result_of


class OutboxWriter:
    """One write at a time; what comes meanwhile goes together into the next.

    What could not be written is kept and written first: until then nothing else may be taken
    from the outbox, or it would be delivered twice.
    """

    def __init__(self, outbox: OnWriter[Outbox]) -> None:
        self._outbox = outbox
        self._pending: list[Settled] = []
        self._writing: list[Settled] = []
        self._written: Future[None] | None = None

    def add(self, settled: Settled) -> None:
        """Write it down soon.

        Raises:
            StoreError: something before it could not be written; all of it is kept.
        """
        self._pending.append(settled)
        if self._written is None or self._written.done():
            self._turn()

    def flush(self) -> None:
        """Return once everything is written.

        Raises:
            StoreError: it is not; all of it is kept.
        """
        while self._pending or self._written is not None:
            self._turn()

    def _turn(self) -> None:
        """Wait for the write under way, and begin one of what is open."""
        if self._written is not None:
            written, self._written = self._written, None
            try:
                result_of(written)
            except StoreError:
                self._pending[:0] = self._writing
                raise
        if self._pending:
            batch = list(self._pending)
            self._written = self._outbox.submit(lambda outbox: outbox.settle(batch))
            self._writing, self._pending = batch, []
