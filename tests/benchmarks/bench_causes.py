"""Are incidents one a cause, and is the right cause named? 12 kinds at three sizes and two rates.

BENCH_SCALE below 1 leaves out the smallest and largest sizes and the higher rate.
"""

import os
from collections.abc import Iterator

import numpy as np
from causes import PIPELINE, RATES, Cause, Heard, heard, single

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
PAIRS = (
    {"bad release to 25 %": 0.5, "slow reranker": 3.0},
    {"one tenant's broken filter": 0.95, "prompt without citations": 0.9},
    {"index down": 0.8, "slow reranker": 3.0},
    {"bad release to 25 %": 0.5, "one tenant's broken filter": 0.95},
)
Row = tuple[str, str, str]


def run() -> list[Row]:
    """Rows of (what, measured, goal)."""
    print(f"{'cause':28} {'size':>5} {'q/s':>4} {'incidents':>9} {'critical':>9}  blamed")
    cases = [case for case in single() if SCALE >= 1.0 or _is_small(*case)]
    outcomes = list(_told(cases))
    harmful = [(cause, size, seen) for cause, size, seen in outcomes if not cause.traffic]
    told = [(cause, size, seen) for cause, size, seen in harmful if seen.opened]
    numbers = [len(_incidents(seen)) for _, _, seen in told]
    right = [seen.places[0] == cause.place for cause, _, seen in told]
    innocent = [_blames_innocent(cause, seen) for cause, _, seen in told]
    grave = [seen.critical_s() for cause, size, seen in outcomes if size >= cause.critical_from]
    quiet = [seen for cause, _, seen in outcomes if cause.traffic and not seen.opened]
    busy = [cause for cause, _, _ in outcomes if cause.traffic]
    return [
        ("causes that were told of", f"{len(told)} of {len(harmful)}", ""),
        ("incidents a cause", f"{np.mean(numbers):.2f}, most {max(numbers)}", "<= 1.2, most 3"),
        ("the right cause named first", f"{np.mean(right):.0%}", ">= 90 %"),
        ("an innocent slice named", f"{np.mean(innocent):.0%}", "<= 5 %"),
        ("an outage is critical within", f"{max(grave):.0f} s of its minutes", "120 s"),
        ("more traffic is no news", f"{len(quiet)} of {len(busy)}", "all"),
        _pairs(),
    ]


def _told(cases: list[tuple[Cause, float, float]]) -> Iterator[tuple[Cause, float, Heard]]:
    for cause, size, rate in cases:
        seen = heard({cause.name: size}, rate, 1)
        blamed = "; ".join(" ".join(place) if any(place) else "all" for place in seen.places)
        print(
            f"{cause.name:28} {size:5} {rate:4.2g} {len(_incidents(seen)):9} "
            f"{seen.critical_s():9.0f}  {blamed}",
            flush=True,
        )
        yield cause, size, seen


def _pairs() -> Row:
    apart = 0
    for faults in PAIRS:
        apart += len(_incidents(heard(faults, RATES[0], 1))) == len(faults)
    return ("two causes at once are two incidents", f"{apart} of {len(PAIRS)}", ">= 90 %")


def _is_small(cause: Cause, size: float, rate: float) -> bool:
    return size == cause.sizes[1] and rate == RATES[0]


def _incidents(seen: Heard) -> set[str]:
    return {notice.incident_id for notice in seen.opened}


def _blames_innocent(cause: Cause, seen: Heard) -> bool:
    return any(place not in (PIPELINE, cause.place) for place in seen.places)


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:40} {row[1]:40} {row[2]}")
