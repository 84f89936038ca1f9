"""Days as the people who ask see them: where they begin, and which ones are days off."""

from datetime import UTC, date, datetime, tzinfo

from msgspec import Struct

MINUTE_S = 60.0
SATURDAY, SUNDAY = 5, 6
DAY_MINUTES = 1_440


class Calendar(Struct, frozen=True):
    """Time zone, weekend and holidays."""

    zone: tzinfo = UTC
    weekend: tuple[int, ...] = (SATURDAY, SUNDAY)  # Monday is 0
    holidays: frozenset[date] = frozenset()

    def weekday(self, minute: int) -> int:
        """Local weekday of a unix minute; Monday is 0."""
        return self._local(minute).weekday()

    def is_holiday(self, minute: int) -> bool:
        """True on a holiday that is no weekend."""
        local = self._local(minute)
        return local.date() in self.holidays and local.weekday() not in self.weekend

    def is_off(self, minute: int) -> bool:
        """True on a weekend and on a holiday."""
        local = self._local(minute)
        return local.weekday() in self.weekend or local.date() in self.holidays

    def first_hour(self, hour: int) -> int:
        """Hour, since 1970, in which the local day of an hour begins."""
        return hour - self._local(hour * 60).hour

    def _local(self, minute: int) -> datetime:
        return datetime.fromtimestamp(minute * MINUTE_S, self.zone)


EVERYWHERE = Calendar()
"""Days in UTC, the weekend on Saturday and Sunday, no holidays."""
