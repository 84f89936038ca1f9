"""Judged and labelled answers of a store, gathered block by block."""

from collections.abc import Callable

import numpy as np

from ragmon.judge_reports.gathering import AnswerPlace, JudgedAnswers
from ragmon.queries.blocks import QueryFilter, fitting_dims
from ragmon.signals.evidence import LOCAL_JUDGE, SAMPLED_JUDGE
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations, unpack

# Labels of people, and judges beside the embedded one, which reads every answer.
_TELLING = (b"labels", *(name.encode() for name in (SAMPLED_JUDGE, LOCAL_JUDGE)))


def gather(
    reader: Reader,
    asked: QueryFilter,
    answers: JudgedAnswers,
    on_block: Callable[[], None] = lambda: None,
) -> None:
    """Add the answers that fit and of which people, or two judges, said something.

    Args:
        reader: of the store.
        asked: pipeline, times, and the pipelines that may be read.
        answers: takes them, the newest block first.
        on_block: called before each block; it may raise to give up.
    """
    with reader.moment():
        for outline in reader.outlines(asked.since, asked.until):
            on_block()
            block = reader.block(outline.first_sequence)
            if block is not None:
                _add(block, asked, answers)


def _add(block: Block, asked: QueryFilter, answers: JudgedAnswers) -> None:
    chosen = {
        sequence - block.first_sequence: body
        for sequence, body in block.amendments.items()
        if any(word in body for word in _TELLING)  # decoding all of them would take seconds
    }
    if not chosen:
        return
    observations = unpack(block.observations, ())
    fits = fitting_dims(observations.slices, observations.dims, asked)
    times = observations.timestamps
    for at in sorted(chosen, key=lambda at: -times[at]):
        if fits[observations.dim_index[at]] and asked.since <= times[at] < asked.until:
            answers.add(_place(observations, at), amendments.decode(chosen[at]).known)


def _place(observations: Observations, at: int) -> AnswerPlace:
    dims = observations.dims[observations.dim_index[at]]
    slices = zip(observations.slices, dims[2:], strict=True)
    named = tuple((name, value) for name, value in slices if value)
    return AnswerPlace(dims[0], dims[1], named, float(np.float64(observations.timestamps[at])))
