"""Topics recognized from one day to the next: the same, split, merged, appeared or gone.

Both models assign the questions of the later day. Two topics that share most of their queries are
the same one; a topic whose queries went to several is split, one that took in several is merged.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import xxhash
from msgspec import Struct
from numpy.typing import NDArray

Change = Literal["same", "split", "merged", "new"]
_PART = 0.3  # of a topic's queries, from which on it counts as a part of another
_MOST = 0.5

Labels = NDArray[np.int32]


class KnownTopic(Struct, frozen=True, kw_only=True):
    """A topic of an earlier day."""

    id: str
    words: tuple[str, ...]
    first_seen: float  # unix seconds


class Recognized(Struct, frozen=True, kw_only=True):
    """Origin of a topic."""

    id: str
    first_seen: float  # unix seconds
    change: Change
    of: tuple[str, ...] = ()  # ids of the topics that it is a part of, or took in


class BothLabels(NamedTuple):
    """Topics of the same distinct questions by two models; -1: none."""

    earlier: Labels
    later: Labels
    counts: NDArray[np.int64]  # queries that asked each question


class _Shares(NamedTuple):
    """Queries that an earlier and a later topic have in common, as shares of each."""

    of_earlier: NDArray[np.float64]  # shape (earlier, later)
    of_later: NDArray[np.float64]


def recognize(
    known: Sequence[KnownTopic],
    both: BothLabels,
    words: Sequence[tuple[str, ...]],
    now: float,
) -> list[Recognized]:
    """The origin of each later topic.

    Args:
        known: the earlier topics.
        both: topics of the same questions by both models.
        words: that name each later topic.
        now: unix seconds, of what appears.
    """
    shares = _shares(both, len(known), len(words))
    heirs = _heirs(shares)
    taken = {known[at].id for at in heirs.values()}
    recognized: list[Recognized] = []
    for at, name in enumerate(words):
        parents = np.flatnonzero(shares.of_earlier[:, at] >= _PART).tolist()
        took_in = [known[parent] for parent in parents if shares.of_later[parent, at] >= 0.1]
        if at in heirs:
            own = known[heirs[at]]
            others = tuple(topic.id for topic in took_in if topic.id != own.id)
            change: Change = "merged" if others else "same"
            recognized.append(
                Recognized(id=own.id, first_seen=own.first_seen, change=change, of=others)
            )
            continue
        of = _split_from(shares, known, at)
        fresh = _fresh_id(name, now, taken)
        taken.add(fresh)
        recognized.append(
            Recognized(id=fresh, first_seen=now, change="split" if of else "new", of=of)
        )
    return recognized


def _shares(labels: BothLabels, known: int, topics: int) -> _Shares:
    earlier, later, counts = labels
    both = (earlier >= 0) & (later >= 0)
    cells = earlier[both].astype(np.int64) * topics + later[both]
    common = np.bincount(cells, counts[both], known * topics).reshape(known, topics)
    of_earlier = np.bincount(earlier[earlier >= 0], counts[earlier >= 0], known)
    of_later = np.bincount(later[later >= 0], counts[later >= 0], topics)
    return _Shares(
        common / np.maximum(of_earlier, 1.0)[:, None], common / np.maximum(of_later, 1.0)
    )


def _heirs(shares: _Shares) -> dict[int, int]:
    """The earlier topic that each later one goes on, by the most in common; each goes on once."""
    common = np.sqrt(shares.of_earlier * shares.of_later)
    heirs: dict[int, int] = {}
    gone_on: set[int] = set()
    for cell in np.argsort(-common, axis=None, kind="stable").tolist():
        earlier, later = divmod(cell, common.shape[1])
        if common[earlier, later] < _PART:
            break
        if earlier not in gone_on and later not in heirs:
            gone_on.add(earlier)
            heirs[later] = earlier
    return heirs


def _split_from(shares: _Shares, known: Sequence[KnownTopic], later: int) -> tuple[str, ...]:
    """The earlier topic that most of a topic's queries were part of."""
    return tuple(known[at].id for at in np.flatnonzero(shares.of_later[:, later] >= _MOST).tolist())


def _fresh_id(words: tuple[str, ...], now: float, taken: set[str]) -> str:
    """An id that no topic has."""
    text = f"{now:.0f} {' '.join(words)}"
    while (fresh := xxhash.xxh32_hexdigest(text.encode(errors="replace"))) in taken:
        text += "."
    return fresh
