"""The file that keeps what ``/metrics`` shows from one start to the next."""

import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.daemon.shown_series import ShownSeries
from ragmon.exposition.budget import BudgetState
from ragmon.windows.series import SeriesKey

A, B = SeriesKey('do"cs\n', "tenant", "💥"), SeriesKey("docs", "tenant", "b")


def state(*keys, at=1.5):
    return BudgetState({"slices": [(key, at) for key in keys]}, {"slices": [(A, 40)]})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics_shown"


def test_what_was_saved_is_loaded(path):
    assert ShownSeries(path, ManualClock()).load() is None
    ShownSeries(path, ManualClock()).save(state(A, B))
    assert ShownSeries(path, ManualClock()).load() == state(A, B)


def test_it_is_written_when_it_changed_and_now_and_then(path):
    clock = ManualClock()
    shown = ShownSeries(path, clock)
    for later_s, given, written in (
        (0.0, state(A), state(A)),
        (60.0, state(A, at=9.0), state(A)),
        (60.0, state(A, B), state(A, B)),
        (599.0, state(B, A, at=9.0), state(A, B)),
        (1.0, state(B, A, at=9.0), state(B, A, at=9.0)),
    ):
        clock.sleep(later_s)
        shown.save(given)
        assert ShownSeries(path, clock).load() == written


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"deserved": 1}', b"\xff\xfe", b"[" * 9_000])
def test_a_damaged_file_is_as_none(path, damaged):
    path.write_bytes(damaged)
    with capture_logs() as logs:
        assert ShownSeries(path, ManualClock()).load() is None
    assert [entry["event"] for entry in logs] == ["shown_series_unreadable"]
    ShownSeries(path, ManualClock()).save(state(A))
    assert ShownSeries(path, ManualClock()).load() == state(A)


def test_a_file_that_cannot_be_written_costs_only_itself(path):
    shown = ShownSeries(path / "missing", ManualClock())
    with capture_logs() as logs:
        shown.save(state(A))
    assert [entry["event"] for entry in logs] == ["shown_series_not_saved"]
