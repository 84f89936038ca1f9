"""An engine with forty days of one query an hour, of which memory has the last eight."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ragmon.clock import ManualClock
from ragmon.config import Settings
from ragmon.daemon.build import build_engine
from ragmon.daemon.ingest.engine import Engine
from ragmon.records import QueryRecord
from ragmon.sources import Submission

HOUR, DAY = 3_600.0, 86_400.0
NOW = 1_750_000_000.0 // DAY * DAY
DAYS = 40


@contextmanager
def forty_days(
    folder: Path, is_empty: Callable[[int, int], bool]
) -> Iterator[tuple[Engine, Settings, ManualClock]]:
    """Counted day by day; the first day's queries are of a pipeline that is not seen again.

    Args:
        folder: of the store.
        is_empty: whether the query of a day and hour retrieved no chunk; the others log none.
    """
    settings = Settings(data_dir=folder)
    clock = ManualClock(NOW - DAYS * DAY)
    engine = build_engine(settings, clock)
    for day in range(DAYS):
        records = [
            QueryRecord(
                query_id=f"q{day}-{hour}",
                timestamp=clock.now() + hour * HOUR + 1.0,
                pipeline="docs" if day else "old",
                chunks=[] if is_empty(day, hour) else None,
            )
            for hour in range(24)
        ]
        clock.sleep(DAY)
        group = [Submission("test", 1, lambda _: None, records=records)]
        engine.writer.commits.commit(group, clock.now())
        engine.snapshot()
        engine.expire(clock.now())
    engine.writer.start()
    yield engine, settings, clock
    engine.writer.stop(5)
    engine.store.close()
