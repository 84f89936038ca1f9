"""Parts that every reader of a topic needs: refusals counted, times at which something is due."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ragmon.sources import SourceContext
from ragmon.sources.kafka.lag import LogFigures
from ragmon.sources.kafka.log import LogMessage
from ragmon.sources.kafka.messages import MessageBatch
from ragmon.sources.kafka.positions import Cause

SOURCE = "kafka"
_LOGGED = 20  # refused messages of one batch

_READ_ON = "`ragmon shards reset` reads it on"
REMEDIES: Mapping[Cause, str] = {
    "gap": f"Kafka deleted messages before they were read; {_READ_ON}",
    "went_back": f"the log lost messages that were read; {_READ_ON}",
    "topic_made_anew": f"the topic was deleted and made again; {_READ_ON}",
    "another_cluster": "brokers leads to another cluster; mend it, or take another group",
}


def count_refusals(
    context: SourceContext, figures: LogFigures, batch: MessageBatch, log: Any
) -> None:
    """Count and log the messages that were left out."""
    counters, now = context.counters, context.clock.now()
    figures.unkeyed += batch.unkeyed
    for reason, count in Counter(each.error.reason for each in batch.refusals).items():
        counters.rejected(SOURCE, reason, count)
    for refusal in batch.refusals[:_LOGGED]:
        error = refusal.error
        counters.note_refusal(SOURCE, error.reason, now, refusal.text)
        log.warning(
            "message_refused",
            partition=refusal.partition,
            offset=refusal.offset,
            reason=error.reason,
            error=refusal.text,
        )
    if len(batch.refusals) > _LOGGED:
        log.warning("more_messages_refused", count=len(batch.refusals) - _LOGGED)


def leader_epoch(message: LogMessage) -> int:
    """Epoch of the leader that had a message; -1: unknown."""
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch


class Due:
    """Times at which something is due again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._at: dict[str, float] = {}

    def begin(self, name: str) -> None:
        """Count the seconds from now."""
        self._at[name] = self._monotonic()

    def every(self, seconds: float, name: str) -> bool:
        """True when it is due; the next time is so many seconds later."""
        last = self._at.get(name)
        if last is not None and self._monotonic() - last < seconds:
            return False
        self.begin(name)
        return True
