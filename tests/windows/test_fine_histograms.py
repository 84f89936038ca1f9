"""Fine histograms by series, against a table of all series."""

import numpy as np

from ragmon.stats import exponential
from ragmon.windows.fine_histograms import FineHistograms

SERIES, STAGES = 40, 3


def test_they_count_as_a_table_of_all_series_does():
    rng = np.random.default_rng(1)
    fine = FineHistograms(SERIES, STAGES)
    table = np.zeros((SERIES, STAGES, exponential.SIZE), dtype=np.int64)
    for turn in range(60):
        series = rng.integers(0, SERIES, 30)
        stage, counters = turn % STAGES, rng.integers(0, exponential.SIZE, 30)
        fine.add(series, stage, counters)
        np.add.at(table[:, stage], (series, counters), 1)
        gone = rng.integers(0, SERIES, 4).tolist()
        fine.clear(gone)
        table[gone] = 0
        assert (fine.of(range(SERIES)) == table).all()


def test_what_is_put_back_replaces_what_was_there():
    fine = FineHistograms(SERIES, STAGES)
    counts = np.arange(2 * STAGES * exponential.SIZE).reshape(2, STAGES, -1)
    fine.put(np.array([7, 3]), counts)
    fine.put_counters(np.array([7, 9]), np.array([0, 2]), np.array([5, 6]), np.array([70, 90]))
    of_7, of_9, of_8 = fine.of([7, 9, 8])
    assert of_7[0, 5] == 70
    assert (of_7[1:] == counts[0, 1:]).all()
    assert of_9[2, 6] == of_9.sum() == 90
    assert not of_8.any()


def test_two_thousand_series_of_which_twenty_count_take_little_memory():
    fine = FineHistograms(2_004, STAGES)
    pipelines = np.arange(0, 2_000, 100)
    fine.add(pipelines, 0, np.zeros(20, dtype=np.int64))
    assert fine.nbytes < 1_000_000
