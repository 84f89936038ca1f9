"""Queries of a store, in the form that log files give."""

from collections.abc import Callable

from ragmon.backtest.queries import Gatherer, Queries
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import current
from ragmon.stores import Reader


def read(
    reader: Reader,
    pipeline: Pipeline,
    since: float,
    until: float,
    progress: Callable[[float], None] = lambda _: None,
) -> Queries:
    """Every stored query of some time; feedback and labels count as if they had come with it.

    Args:
        reader: of the store.
        pipeline: makes observations of queries.
        since: unix seconds.
        until: unix seconds.
        progress: called with the newest moment of each block, unix seconds, from new to old.
    """
    gatherer = Gatherer(pipeline.columns, pipeline.slices)
    for block in reader.blocks(since, until):
        gatherer.add(current(reader, pipeline, block))
        progress(block.last_timestamp)
    return gatherer.build()
