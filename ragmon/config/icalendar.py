"""The whole days of an iCalendar file, which is how public holidays are handed out.

A reader of its own, because this is all of RFC 5545 that is needed: events of whole days. What a
holiday calendar does not need (times, repetition) is refused and not guessed, and a library would
be one more dependency for the part that is refused.

Source: RFC 5545, 3.1 (folded lines), 3.3.4 (dates), 3.6.1 (events; DTEND is the day after).
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

_LONGEST = 366  # days
_DATE = re.compile(r"[0-9]{8}")
_DURATION = re.compile(r"\+?P(?:(\d{1,2})W|(\d{1,3})D)")
_REPEATS = ("RRULE", "RDATE", "EXDATE", "RECURRENCE-ID")


class CalendarError(ValueError):
    """A file that holds something else than whole days."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def days_of(text: str) -> frozenset[date]:
    """Every day of every event that was not cancelled.

    Raises:
        CalendarError: no calendar, or an event that repeats, has a time, or no readable date.
    """
    if not text.lstrip().upper().startswith("BEGIN:VCALENDAR"):
        raise CalendarError("no iCalendar file: it does not begin with BEGIN:VCALENDAR", _EXPORT)
    days: set[date] = set()
    for number, event in _events(text):
        if event.get("STATUS", "").upper() != "CANCELLED":
            days.update(_days(number, event))
    if not days:
        raise CalendarError("no event with a date", _EXPORT)
    return frozenset(days)


_EXPORT = "export the holidays as iCalendar (.ics), or write their dates"


def _events(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line and properties of each event, without those of its alarms."""
    inside: list[str] = []
    begun, event = 0, dict[str, str]()
    for number, line in _lines(text):
        name, _, value = line.partition(":")
        name, value = name.partition(";")[0].strip().upper(), value.strip()
        if name == "BEGIN":
            inside.append(value.upper())
            if value.upper() == "VEVENT":
                begun, event = number, {}
        elif name == "END":
            if not inside or inside.pop() != value.upper():
                raise CalendarError(f"line {number}: END:{value} without its BEGIN", _EXPORT)
            if value.upper() == "VEVENT":
                yield begun, event
        elif inside and inside[-1] == "VEVENT":
            event[name] = value
    if inside:
        raise CalendarError(f"it ends inside {inside[-1]}: a part is missing", _EXPORT)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Unfolded lines: one that begins with a blank goes on with the one before."""
    whole, begun = "", 1
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line[:1] in (" ", "\t"):
            whole += line[1:]
            continue
        if whole:
            yield begun, whole
        whole, begun = line, number
    if whole:
        yield begun, whole


def _days(line: int, event: Mapping[str, str]) -> list[date]:
    title = event.get("SUMMARY", "")[:60]
    where = f"event at line {line}" + (f" ({title})" if title else "")
    for name in _REPEATS:
        if name in event:
            raise CalendarError(
                f"{where}: {name} is not read", "export each date as an event of its own"
            )
    first = _date(event.get("DTSTART", ""), "DTSTART", where)
    after = first + timedelta(days=1)
    if "DTEND" in event:
        after = max(after, _date(event["DTEND"], "DTEND", where))
    elif "DURATION" in event:
        after = first + _duration(event["DURATION"], where)
    length = (after - first).days
    if length > _LONGEST:
        raise CalendarError(f"{where}: lasts {length} days, at most {_LONGEST}", "correct its end")
    return [first + timedelta(days=day) for day in range(length)]


def _date(value: str, name: str, where: str) -> date:
    if not _DATE.fullmatch(value):
        problem = f"{name} {value!r} is no whole day" if value else f"{name} is missing"
        raise CalendarError(
            f"{where}: {problem}", "make it an event of whole days (DTSTART;VALUE=DATE:20261225)"
        )
    try:
        return date(int(value[:4]), int(value[4:6]), int(value[6:]))
    except ValueError as error:
        raise CalendarError(f"{where}: there is no day {value}", "correct the date") from error


def _duration(value: str, where: str) -> timedelta:
    match = _DURATION.fullmatch(value)
    if match is None:
        raise CalendarError(f"{where}: DURATION {value!r} is no number of days", "write P1D")
    return timedelta(weeks=int(match[1] or 0), days=int(match[2] or 0)) or timedelta(days=1)
