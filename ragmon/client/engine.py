"""Construction of one monitor's components in one process."""

from __future__ import annotations

import os
import random
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ragmon.client.address import Address
from ragmon.client.backlog import Backlog
from ragmon.client.backoff import Backoff
from ragmon.client.counters import ErrorBoundary, LogAccounting, Stats
from ragmon.client.delivery import BatchDelivery
from ragmon.client.encode import Encoder
from ragmon.client.inbox import Inbox
from ragmon.client.options import Options
from ragmon.client.pending import PendingRecords
from ragmon.client.spool import Spool
from ragmon.client.worker import SendingThread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ragmon.client.transport import Transport
from ragmon.client.clock import ClientClock

_GRACE_S = 0.2


class EnginePlan(NamedTuple):
    """Everything an engine is built from; a forked child builds its own."""

    address: Address
    token: str | None
    spool_dir: Path | None
    options: Options
    clock: ClientClock
    defaults: Mapping[str, object] = MappingProxyType({})  # of every query that does not give them


class ClientEngine:
    """The buffer and the thread of one process."""

    def __init__(
        self,
        accounting: LogAccounting,
        inbox: Inbox,
        worker: SendingThread,
        delivery: BatchDelivery,
    ) -> None:
        self.accounting = accounting
        self.inbox = inbox
        self.worker = worker
        self._delivery = delivery

    def stats(self) -> Stats:
        """The counts as of now."""
        return self.accounting.stats(self._delivery.spooled_bytes)

    def close(self, timeout_s: float) -> bool:
        """Deliver for at most ``timeout_s``, then leave on disk or drop what is left.

        Returns:
            True when nothing was left.
        """
        self.inbox.close("closed")
        flushed = self.worker.flush(timeout_s, disk=True)
        self.worker.stop(_GRACE_S if flushed else 0.0)
        self.leave()
        self.worker.stop(_GRACE_S)  # The request it hung in, if any, has just been aborted.
        self._delivery.close()
        return flushed

    def leave(self) -> None:
        """Put on disk, or count as dropped, everything that is not acknowledged."""
        self.worker.collect()
        self._delivery.give_up("closed")

    def forget(self) -> None:
        """After a fork, in the child: close the parent's files and connection."""
        self._delivery.forget()


def build(plan: EnginePlan, transport: Transport | None = None) -> ClientEngine:
    """A new engine; nothing runs and nothing is opened until the first record.

    Args:
        plan: what it is built from.
        transport: instead of HTTP.
    """
    options, clock = plan.options, plan.clock
    accounting = LogAccounting()
    inbox = Inbox(accounting, options)
    pending = PendingRecords(options, _backlog(plan, accounting), accounting)
    transport = transport or _http(plan)
    # Its own generator, seeded here: clients forked together must not retry together.
    backoff = Backoff(options, clock, random.Random(os.urandom(16)).random)  # noqa: S311
    delivery = BatchDelivery(pending, transport, backoff, accounting, clock)
    worker = SendingThread(
        inbox,
        Encoder(accounting, plan.defaults),
        delivery,
        ErrorBoundary(accounting, "worker"),
        clock,
        flush_interval_s=options.flush_interval_s,
    )
    return ClientEngine(accounting, inbox, worker, delivery)


def _http(plan: EnginePlan) -> Transport:
    """HTTP, imported with the first monitor: half of what importing the client would cost.

    Not on the worker's thread: a fork in the middle of an import would leave the child without it.
    """
    from ragmon.client.transport import HttpTransport  # noqa: PLC0415

    return HttpTransport(plan.address, plan.token, plan.options)


def _backlog(plan: EnginePlan, accounting: LogAccounting) -> Backlog | None:
    if plan.spool_dir is None:
        return None
    return Backlog(Spool(plan.spool_dir, plan.options.spool_max_bytes), accounting, plan.options)
