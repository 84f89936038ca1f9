"""Filters of the templates: numbers, times and texts of others as people read them."""

import math
import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

from ragmon.alerts.as_json import IncidentView
from ragmon.charts.units import Unit, value_text

LONGEST = 160
"""Characters of somebody else's text that are shown."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CONTROL_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DASH = "–"
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2} )?(\d{2}):(\d{2}) UTC")
_BARE_LEVEL = re.compile(r"\((\d[\d.]* %)\)")
_HALF_DAY_S, _DAY_S = 43_200.0, 86_400.0


def text(value: str, most: int = LONGEST) -> Markup:
    """A text that a client sent: cut, and apart from the direction of what stands around it."""
    return Markup("<bdi>{}</bdi>").format(plain(value, most))


def sentence(value: str, near: float | None, most: int = LONGEST) -> Markup:
    """A sentence of an alert or finding, whose moments are shown in the reader's zone.

    Args:
        value: the sentence; its moments are in UTC, those without a date within half a day of
            ``near``.
        near: unix seconds; None: moments without a date stay as they are.
        most: characters that are shown.
    """
    shown, parts, done = plain(value, most), [], 0
    for match in _MOMENT.finditer(shown):
        moment = _moment_of(match, near)
        if moment is not None:
            parts += [escape(shown[done : match.start()]), when(moment)]
            done = match.end()
    return Markup("<bdi>{}</bdi>").format(Markup("").join([*parts, escape(shown[done:])]))


def _moment_of(match: re.Match[str], near: float | None) -> float | None:
    """Unix seconds of a moment in a sentence; None where its day is not known."""
    date, hour, minute = match.groups()
    try:
        if date is not None:
            return datetime.strptime(
                f"{date}{hour}:{minute} +0000", "%Y-%m-%d %H:%M %z"
            ).timestamp()
    except ValueError:  # somebody else's digits
        return None
    if near is None or int(hour) > 23 or int(minute) > 59:
        return None
    clock = 3_600.0 * int(hour) + 60.0 * int(minute)
    return near + (clock - near + _HALF_DAY_S) % _DAY_S - _HALF_DAY_S


def headline(incident: IncidentView) -> Markup:
    """The headline of an incident: in the past once it ended, and with what was expected."""
    shown = _BARE_LEVEL.sub(r"(expected \1)", incident.headline)
    if incident.ended_at is not None:
        shown = shown.replace(" is worse since ", " was worse from ", 1)
    return sentence(shown, incident.began_at, 400)


def plain(value: str, most: int = LONGEST) -> str:
    """A text that a client sent, cut, where no element may stand, such as in a title."""
    shown = value if len(value) <= most else f"{value[:most]}…"
    return _CONTROL.sub("\ufffd", shown)


def whole(value: str) -> str:
    """A text that a client sent, in full with its lines; its direction ends with the element."""
    return _CONTROL_IN_LINES.sub("\ufffd", value)


def figure(value: float | None, unit: Unit = "ratio") -> str:
    """A value whose digits line up with those above and below it.

    Args:
        value: a ratio in [0, 1], seconds, a count, a score or US dollars.
        unit: of the value.
    """
    if value is None or math.isnan(value):
        return _DASH
    if unit == "ratio":
        return "<0.1 %" if 0.0 < value < 0.0005 else f"{100.0 * value:.1f} %"
    if unit == "count":
        return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return value_text(value, unit)


_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size(count: float | None) -> str:
    """A number of bytes to three digits."""
    if count is None:
        return _DASH
    for unit, length in _SIZES:
        if count >= length:
            shown = count / length
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{count:.0f} B"


def span(lower: float | None, upper: float | None, unit: Unit = "ratio") -> str:
    """An interval; empty where it is not known."""
    if lower is None or upper is None or math.isnan(lower) or math.isnan(upper):
        return ""
    if unit == "ratio":
        return f"{100.0 * lower:.1f}{_DASH}{100.0 * upper:.1f} %"
    return f"{figure(lower, unit)} {_DASH} {figure(upper, unit)}"


def when(moment: float | None, form: str = "minute") -> Markup | str:
    """A moment, in UTC until the script turns it into the reader's zone.

    Args:
        moment: unix seconds.
        form: ``minute``, ``second``, or ``age`` for how long ago it is.
    """
    if not moment:
        return "never"
    utc = datetime.fromtimestamp(moment, UTC)
    shown = f"{utc.day} {utc:%b %H:%M:%S}" if form == "second" else f"{utc.day} {utc:%b %H:%M}"
    return Markup('<time datetime="{}" data-form="{}" title="{} UTC">{} UTC</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", form, f"{utc:%Y-%m-%d %H:%M:%S}", shown
    )


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return _DASH
    left = int(max(0.0, seconds))
    parts: list[str] = []
    for letter, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if left >= size or (letter == "s" and not parts):
            parts.append(f"{left // size} {letter}")
            left %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)
