"""Days off in the settings."""

from datetime import date

import pytest

from ragmon.config.days import holidays
from ragmon.config.icalendar import CalendarError, days_of
from ragmon.config.loading import load
from ragmon.errors import SettingsError

CALENDAR = """\
BEGIN:VCALENDAR\r
VERSION:2.0\r
BEGIN:VEVENT\r
DTSTART;VALUE=DATE:20261225\r
DTEND;VALUE=DATE:20261227\r
SUMMARY:Christ\r
 mas\r
BEGIN:VALARM\r
DURATION:PT15M\r
END:VALARM\r
END:VEVENT\r
BEGIN:VEVENT\r
DTSTART;VALUE=DATE:20270101\r
END:VEVENT\r
BEGIN:VEVENT\r
DTSTART;VALUE=DATE:20270106\r
STATUS:CANCELLED\r
END:VEVENT\r
END:VCALENDAR\r
"""
CHRISTMAS = {date(2026, 12, 25), date(2026, 12, 26)}


def event(*lines):
    return "\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR"])


def test_the_whole_days_of_a_calendar_are_read():
    assert days_of(CALENDAR) == CHRISTMAS | {date(2027, 1, 1)}


def test_a_length_in_days_is_read():
    days = days_of(event("DTSTART;VALUE=DATE:20261225", "DURATION:P2D"))
    assert days == CHRISTMAS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("hello", "BEGIN:VCALENDAR", id="no calendar"),
        pytest.param(event("SUMMARY:x"), "DTSTART is missing", id="no date"),
        pytest.param(event("DTSTART:20261225T090000Z"), "no whole day", id="a time"),
        pytest.param(
            event("SUMMARY:May Day", "DTSTART:20260501", "RRULE:FREQ=YEARLY"),
            r"line 2 \(May Day\): RRULE",
            id="a repetition",
        ),
        pytest.param(event("DTSTART:20261341"), "no day 20261341", id="no such day"),
        pytest.param(event("DTSTART:20260101", "DTEND:20280101"), "at most 366", id="two years"),
        pytest.param(event("DTSTART:20260101", "DURATION:PT1H"), "number of days", id="an hour"),
        pytest.param(CALENDAR[:90], "a part is missing", id="half a file"),
        pytest.param("BEGIN:VCALENDAR\nEND:VCALENDAR", "no event", id="an empty one"),
    ],
)
def test_what_is_no_whole_day_is_refused(text, says):
    with pytest.raises(CalendarError, match=says) as refused:
        days_of(text)
    assert refused.value.hint


def test_dates_and_files_may_be_mixed(tmp_path):
    path = tmp_path / "de.ics"
    path.write_text(CALENDAR, encoding="utf-8")
    loaded = load(None, {"detectors.holidays": f"[2026-10-03, {path}]"}, {})
    days = holidays(loaded.settings.detectors.holidays)
    assert days == CHRISTMAS | {date(2026, 10, 3), date(2027, 1, 1)}


@pytest.mark.parametrize(
    "body", [None, b"\xff\xfe", b"BEGIN:VCALENDAR"], ids=["none", "no text", "cut"]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, body):
    path = tmp_path / "de.ics"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(SettingsError, match=r"detectors.holidays: .*de\.ics: "):
        holidays((str(path),))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("detectors.holidays", "[Christmas]", "write a date such as 2026-12-25"),
        ("detectors.time_zone", "Mars/Olympus", "Europe/Berlin"),
    ],
    ids=["a name of a holiday", "no time zone"],
)
def test_what_is_wrong_is_refused_with_an_example(name, value, says):
    with pytest.raises(SettingsError, match=says):
        load(None, {name: value}, {})
