"""What do slices cost live ingest over HTTP: 20 pipelines with 13 values each, against one without?

Two daemons take the same questions in turns, so that the machine's mood is shared; nothing else is
asked of them.
"""

import contextlib
import dataclasses
import os
import random
import tempfile
import time
import uuid
from pathlib import Path

from bench_scrape import cpu_s
from harness import Daemon, batches, daemon, post_all, synthetic
from msgspec import json

RECORDS = int(os.environ.get("BENCH_RECORDS", "40000"))  # to each of them
TURN = 2_000
BATCH = 200
TEXTS = 4_000  # questions, which come again with other ids
FLAGS = {"judge.grounding.enabled": "false"}
SLICES = FLAGS | {"slices": "tenant,channel"}


@dataclasses.dataclass
class Cost:
    """CPU of each turn, microseconds a record."""

    turns: list[float]

    @property
    def quartile(self) -> float:
        """The lower quartile: other work on the machine only adds."""
        return sorted(self.turns)[len(self.turns) // 4]

    @property
    def mean(self) -> float:
        """Of all turns."""
        return sum(self.turns) / len(self.turns)


def questions(sliced: bool) -> list[bytes]:
    """The same texts for either: of 20 pipelines with tags, or of one."""
    rng, bodies = random.Random(5), []
    for line in synthetic(TEXTS, seed=6, now=0.0):
        record = json.decode(line)
        del record["timestamp"]  # when it comes
        record["query_id"] = "@id@"
        record["version"] = "v1"
        record["tags"] = {"tenant": f"t{rng.randrange(10)}", "channel": f"c{rng.randrange(3)}"}
        if not sliced:
            record["pipeline"] = "pipeline-0"
        bodies.append(json.encode(record))
    return bodies


def turn(running: Daemon, texts: list[bytes], first: int) -> float:
    """Microseconds of CPU a record for one turn."""
    at = first % len(texts)
    records = [
        text.replace(b"@id@", uuid.uuid4().hex.encode(), 1) for text in texts[at : at + TURN]
    ]
    before = cpu_s(running)
    load = post_all(running.url, batches(records, BATCH), connections=4)
    time.sleep(0.3)  # what was answered is still to be counted
    if load.accepted != TURN:
        raise RuntimeError(f"{load.refused} requests were refused")
    return 1e6 * (cpu_s(running) - before) / TURN


def measure() -> tuple[Cost, Cost]:
    """With slices, and without."""
    costs = Cost([]), Cost([])
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        sides = []
        for kind, flags in (("sliced", SLICES), ("plain", FLAGS)):
            folder = Path(name) / kind
            folder.mkdir()
            words = [part for key, value in flags.items() for part in (f"--{key}", value)]
            running = stack.enter_context(daemon(folder, *words))
            sides.append((running, questions(kind == "sliced")))
        for first in range(-TURN, RECORDS, TURN):
            for cost, (running, texts) in zip(costs, sides, strict=True):
                spent = turn(running, texts, first)
                if first >= 0:  # the turn before makes the series
                    cost.turns.append(spent)
    return costs


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    sliced, plain = measure()
    return [
        ("one pipeline without slices", f"{plain.quartile:.1f} us/record", ""),
        ("20 pipelines x (10 + 3) slices", f"{sliced.quartile:.1f} us/record", ""),
        (
            "with slices against without, lower quartiles of turns",
            f"{sliced.quartile / plain.quartile:.2f} times",
            "<= 1.15",
        ),
        ("the same of all turns", f"{sliced.mean / plain.mean:.2f} times", "<= 1.15"),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:60} {row[1]:20} {row[2]}")
