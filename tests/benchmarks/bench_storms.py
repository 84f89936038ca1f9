"""Storms: minutes in which clients repeat failing questions, in one pipeline or everywhere at once.

``DAYS`` and ``RUNS`` of the environment make it longer; the defaults take some minutes on one core.
"""

import os

import numpy as np
from detection_live import false_alarms
from detection_worlds import NETWORK_MINUTES

DAYS = int(os.environ.get("DAYS", "20"))
RUNS = int(os.environ.get("RUNS", "100"))


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rates = np.full(RUNS, 1.0)
    opened, *_ = false_alarms(NETWORK_MINUTES, rates, DAYS, 1.0, seed=7)
    return [
        (
            f"failing minutes in {RUNS} pipelines at once, 4 a day, {DAYS} days",
            f"{opened.sum() * 30.0 / DAYS:.1f} false alarms in 30 days of all together",
            "<= 1",
        )
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:70} {row[1]:60} {row[2]}")
