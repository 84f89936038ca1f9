"""Documents: a planted bad one found, false ones among those named, cost over a million records.

Simulated weeks: 50,000 answers, 40 topics of 25 documents, 10 to 30 % disliked by topic, a release
after which a fifth more are; one document whose answers are disliked twice as often, retrieved 300
times. ``--weeks 20`` simulates fewer.
"""

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from ragmon.documents.findings import ReportBounds, report_of
from ragmon.documents.gathering import Gathering, Scope
from ragmon.documents.live import LiveDocumentCounts
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.documents import gather
from ragmon.records import Chunk
from tests.support.documents import WEEK_S, gathered, week
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent

WEEKS = 200
RECORDS = 1_000_000
_BATCH = 4_096
_TEXT = "A chunk of some length, as an application would log it, with forty words or so. " * 4


def named(seed: int, **options) -> tuple[bool, int, int]:
    """Tell if the bad document was named, how many were named, and how many of them wrongly."""
    simulated = week(seed, **options)
    report = report_of(gathered(simulated.piece), ReportBounds(0.0, WEEK_S, 0))
    ids = {one.id for one in report.findings if one.kind == "disliked"}
    return bool(ids & simulated.bad), len(ids), len(ids - simulated.bad)


def weeks(count: int, **options) -> tuple[float, int, int]:
    """Share of weeks in which it was named; all that were named; the false ones."""
    results = [named(seed, **options) for seed in range(count)]
    found, every, false = zip(*results, strict=True)
    return sum(found) / count, sum(every), sum(false)


def cost(records: int) -> tuple[float, float]:
    """Seconds and megabytes of a report over so many records."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as directory:
        rig = Rig(Path(directory), pipeline())
        for first in range(0, records, _BATCH):
            ids = np.sort(rng.zipf(1.3, (_BATCH, 5)) % 50_000, axis=1)
            rig.commit(
                sent(*(
                    record(
                        f"q{first + at}",
                        NOON + (first + at) * 0.5,
                        chunks=[Chunk(f"doc-{one}", 0.5, f"{one} {_TEXT}", "kb.md") for one in row],
                        citations=[f"doc-{row[0]}"],
                        feedback=-1.0 if at % 6 == 0 else 1.0,
                    )
                    for at, row in enumerate(ids.tolist())
                ))
            )  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.process_time()
        gathering = Gathering(Scope())
        with rig.store.reader() as reader:
            gather(reader, rig.pipeline, QueryFilter(0.0, 2e9, "", (), 0), gathering)
        report_of(gathering, ReportBounds(0.0, 2e9, 50))
        seconds = time.process_time() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rig.store.close()
    return seconds, (after - before) / 1_024


def live_cost(queries: int = 200_000) -> float:
    """Microseconds of CPU that the live lists take of a record, in batches of 200."""
    rng = np.random.default_rng(1)
    batches = [
        [
            record("q", NOON, chunks=[Chunk(f"doc-{one}", 0.5) for one in row], citations=[])
            for row in (rng.zipf(1.3, (200, 5)) % 50_000).tolist()
        ]
        for _ in range(100)
    ]
    counts = LiveDocumentCounts(lambda: NOON, random.Random(1).randrange)
    begun = time.process_time()
    for at in range(queries // 200):
        counts.observe(batches[at % len(batches)])
    return 1e6 * (time.process_time() - begun) / queries


def run(count: int = WEEKS, records: int = RECORDS) -> list[tuple[str, str, str]]:
    """Rows of the table."""
    seconds, megabytes = cost(records)
    rows = [
        (f"report over {records:,} records, 5 chunks each", f"{seconds:.1f} s", "exact, in pieces"),
        ("live lists, a record", f"{live_cost():.2f} us", "<= 1 us"),
        ("memory it takes besides", f"{megabytes:.0f} MB", "bounded"),
    ]
    share, every, false = weeks(count)
    rows += [
        (f"bad document found, {count} weeks", f"{100 * share:.1f} %", "≥ 90 %"),
        ("false ones of those named", f"{false} of {every}", "≤ 5 %"),
    ]
    share, every, _ = weeks(count, times=0)
    rows.append((f"{count} weeks without a bad one", f"{every} named", "few"))
    for options, text in (
        ({"rated": 0.5}, "the same, every second answer rated"),
        ({"answers": 20_000}, "the same, 20,000 answers a week"),
    ):
        share, every, false = weeks(count // 4, **options)
        rows.append((text, f"{100 * share:.0f} %, {false} of {every} false", "told"))
    return rows


if __name__ == "__main__":
    asked = int(sys.argv[sys.argv.index("--weeks") + 1]) if "--weeks" in sys.argv else WEEKS
    for row in run(asked):
        print(*row, sep=" | ")
