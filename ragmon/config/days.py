"""Days off from the settings: time zone, weekend and holidays, given as dates or calendar files."""

from collections.abc import Sequence
from datetime import UTC, date, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from ragmon.config.icalendar import CalendarError, days_of
from ragmon.errors import SettingsError

_MOST_BYTES = 1_000_000
_MOST_DAYS = 10_000


def holiday_entries(values: Any) -> Any:
    """Entries of `detectors.holidays` as text; YAML reads a date as one.

    Raises:
        ValueError: one is neither a date nor the path of an iCalendar file.
    """
    if not isinstance(values, list | tuple):
        return values
    return tuple(map(_entry, values))


def known_zone(name: str) -> str:
    """The name, if it is one of the IANA time zone database.

    Raises:
        ValueError: it is not, or the database is not installed.
    """
    _zone(name)
    return name


def holidays(entries: Sequence[str]) -> frozenset[date]:
    """The dates of `detectors.holidays`; files are read now.

    Raises:
        SettingsError: a file cannot be read or holds what is no whole day, or there are too many.
    """
    days: set[date] = set()
    for entry in entries:
        days.update(_of_file(Path(entry)) if _is_file(entry) else {date.fromisoformat(entry)})
    if len(days) > _MOST_DAYS:
        raise SettingsError(
            f"detectors.holidays: {len(days):,} days, at most {_MOST_DAYS:,}",
            hint="leave out the years that are over",
        )
    return frozenset(days)


def zone(name: str) -> tzinfo:
    """Time zone of that name."""
    return _zone(name)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also where no database is installed
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(f"{name!r} is no time zone: write a name such as Europe/Berlin") from error
    except KeyError as error:
        raise ValueError(
            f"there is no time zone {name!r}: write a name such as Europe/Berlin; if it is right, "
            "install the system's package tzdata"
        ) from error


def _entry(value: Any) -> str:
    text = value.isoformat() if isinstance(value, date) else str(value)
    if _is_file(text):
        return text
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(
            f"{text!r} is no holiday: write a date such as 2026-12-25, or the path of a file that "
            "ends in .ics"
        ) from None


def _is_file(entry: str) -> bool:
    return entry.lower().endswith(".ics")


def _of_file(path: Path) -> frozenset[date]:
    where = f"detectors.holidays: {path}"
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SettingsError(
            f"{where}: {error.strerror or error}", hint="check the path and who may read the file"
        ) from error
    if len(body) > _MOST_BYTES:
        raise SettingsError(f"{where}: more than 1 MB", hint="export the holidays alone")
    try:
        return days_of(body.decode("utf-8-sig"))
    except (CalendarError, UnicodeDecodeError) as error:
        hint = error.hint if isinstance(error, CalendarError) else "save it as UTF-8"
        raise SettingsError(f"{where}: {error}", hint=hint) from error
