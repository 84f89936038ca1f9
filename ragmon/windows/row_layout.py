"""Places in a row of sums, the unit that rings and totals add up.

For every column of observations a row holds the count of known values, their sum and their sum
of squares, and at its end the number of queries. The parts are slices, so that indexing the last
axis of any array of rows gives a view.
"""

from msgspec import Struct


class RowLayout(Struct, frozen=True):
    """The layout of rows over so many columns of observations."""

    columns: int

    @property
    def width(self) -> int:
        """Length of a row."""
        return 3 * self.columns + 1

    @property
    def n(self) -> slice:
        """The number of known values of each column."""
        return slice(0, self.columns)

    @property
    def sum(self) -> slice:
        """Σx of each column."""
        return slice(self.columns, 2 * self.columns)

    @property
    def sum_sq(self) -> slice:
        """Σx² of each column."""
        return slice(2 * self.columns, 3 * self.columns)

    @property
    def moments(self) -> tuple[slice, slice, slice]:
        """The parts that have an entry a column: ``n``, ``sum``, ``sum_sq``."""
        return self.n, self.sum, self.sum_sq

    @property
    def queries(self) -> int:
        """Index of the number of queries; a row without any was never written."""
        return 3 * self.columns
