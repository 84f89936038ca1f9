"""Storms: minutes in which clients repeat failing questions, in one pipeline or everywhere at once.

``DAYS`` and ``RUNS`` of the environment make it longer; the defaults take some minutes on one core.
"""

import os
from dataclasses import replace

import numpy as np
from detection_live import WARM_DAYS, Monitor, false_alarms
from detection_worlds import DAY, MONDAY, NETWORK_MINUTES, STORMY, Traffic

from ragmon.alerts import Evidence
from ragmon.alerts.machine import AlertBook, step
from ragmon.detectors import MINUTE_S
from ragmon.detectors.rules import DEFAULT_RULES

DAYS = int(os.environ.get("DAYS", "20"))
RUNS = int(os.environ.get("RUNS", "100"))
PIPELINES = np.tile([0.1, 0.3, 1.0, 3.0], 5)  # queries a second of each of twenty
DRIFTING = replace(STORMY, drift=0.01)


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rates = np.full(RUNS, 1.0)
    opened, *_ = false_alarms(NETWORK_MINUTES, rates, DAYS, 1.0, seed=7)
    return [
        (
            f"failing minutes in {RUNS} pipelines at once, 4 a day, {DAYS} days",
            f"{opened.sum() * 30.0 / DAYS:.1f} false alarms in 30 days of all together",
            "<= 1",
        ),
        _incidents("each question one vote", 1.0, "<= 1"),
        _incidents("every retry another question, some twenty of them", 20.0, ""),
    ]


def _incidents(votes: str, storm_size: float, goal: str) -> tuple[str, str, str]:
    """Incidents that people hear of, by every shipped rule, though nothing is wrong."""
    traffic = Traffic(replace(DRIFTING, storm_size=storm_size), PIPELINES, seed=1)
    monitor, book, first = Monitor(len(PIPELINES), DEFAULT_RULES), AlertBook(), WARM_DAYS * DAY
    kinds: list[str] = []
    for minute, cells in traffic.month(first + DAYS * DAY):
        findings = monitor.minute(minute, cells)
        if not findings and not book.open:
            continue
        moved = step(book, findings, (minute + 1) * MINUTE_S, lambda _: Evidence(sentence=""))
        book = moved.book
        if minute >= MONDAY + first:
            opened = [notice for notice in moved.notices if notice.change == "opened"]
            kinds += [notice.alert.key.kind for notice in opened]
    shares = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return (
        f"20 pipelines, four storms a day each, week, drift, noise, {DAYS} days; {votes}",
        f"{len(kinds) * 30.0 / DAYS:.1f} false incidents in 30 days"
        + (f" ({shares})" * bool(kinds)),
        goal,
    )


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:70} {row[1]:60} {row[2]}")
