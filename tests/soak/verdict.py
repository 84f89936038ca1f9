"""Whether a daemon has grown: samples of its size, early against late."""

from collections.abc import Callable, Sequence
from statistics import median

from tests.soak.month import Sample

GROWTH = 0.05
STARTED_LATE = 2  # threads of a pool and connections that are first needed after the warm-up


def problems(samples: Sequence[Sample], max_disk: int, warm_up: int) -> list[str]:
    """Growth beyond what is allowed, in words; none is the goal.

    Args:
        samples: in the order of time.
        max_disk: bytes that the store may take; the log beside it may take 32 MB more.
        warm_up: samples at the beginning that do not count.
    """
    settled = samples[warm_up:]
    third = max(1, len(settled) // 3)
    early, late = settled[:third], settled[-third:]
    found = []
    for name, share, number in (
        ("rss_bytes", GROWTH, 0),
        ("threads", 0.0, STARTED_LATE),
        ("descriptors", 0.0, STARTED_LATE),
    ):
        value: Callable[[Sample], int] = lambda each, name=name: getattr(each, name)  # noqa: E731
        before, after = median(map(value, early)), median(map(value, late))
        if after > before * (1 + share) + number:
            found.append(f"{name} grew from {before:,.0f} to {after:,.0f}")
    largest = max(each.disk_bytes for each in samples)
    if largest > max_disk + (32 << 20):
        found.append(f"the store took {largest:,} bytes of {max_disk:,}")
    return found
