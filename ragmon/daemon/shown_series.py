"""The choice of series, kept in the data directory: after a restart the same slices are shown."""

from pathlib import Path

import msgspec
import structlog

from ragmon.clock import Clock
from ragmon.exposition.budget import BudgetState

SHOWN = "metrics_shown"
"""Name of the file."""

_EVERY_S = 600.0  # of a day, for which a slice stays, so much may be forgotten
_log = structlog.get_logger("metrics")


class ShownSeries:
    """Reads the choice once, and writes it when it changed, or now and then."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._saved: BudgetState | None = None
        self._saved_at = 0.0  # monotonic

    def load(self) -> BudgetState | None:
        """The choice as it was last; None without one that can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=BudgetState)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning(
                "shown_series_unreadable",
                path=str(self._path),
                error=str(error),
                remedy="the busiest slices are shown, and the file is written anew",
            )
            return None

    def save(self, state: BudgetState) -> None:
        """Write the choice, if that is due; one that cannot be written costs only itself."""
        now = self._clock.monotonic()
        saved = self._saved
        if saved is not None and now - self._saved_at < _EVERY_S and saved.shows_as(state):
            return
        self._saved, self._saved_at = state, now
        written = self._path.with_suffix(".new")
        try:
            written.write_bytes(msgspec.json.encode(state))
            written.replace(self._path)
        except OSError as error:
            _log.warning(
                "shown_series_not_saved",
                path=str(self._path),
                error=str(error),
                remedy="make room in data_dir; until then a restart may show other slices",
            )
