"""The week of a stream: by how much each of its hours differs from what seven days expect.

The level of a stream is expected to be that of the same time on the last seven days. By how much
each hour then differed is kept for three weeks. What all weeks have in common is the stream's week,
and corrects the expectation: a day as a whole, and an hour against its day. Both are shrunk
towards nothing by the share of their variance that is chance (James and Stein), so that a stream
without a week is expected as before. An error that all seven days share is a drift and no week,
and is taken out. One week of three, and one of two, teaches nothing alone.

A day off that was not seen often enough is expected to differ from working days by a normal
effect of 0.05 standard deviations of one loss: that much doubt is added, and gives way to what
the day itself shows until two hours before.

Source: Efron and Morris (1973), Stein's estimation rule and its competitors, JASA 68:117-130.
"""

import numpy as np
from msgspec import Struct

from ragmon.detectors.arrays import Bools, Floats, Ints
from ragmon.detectors.days import Calendar
from ragmon.detectors.hour_errors import WEEKS, HourErrors

WEEK_HOURS = 168
LEAST = 30.0  # observations that make a day, or three hours, known
UNSEEN = 0.05  # of the standard deviation of a loss: how far a day off may differ
UNSEEN_HOUR = 1.0 / 3.0  # of that: how far an hour of it may differ from the day
DAY_EFFECT = 0.005  # standard deviation of what makes a day unlike that of another week
_ENOUGH_DAYS = 5  # of a week, to know what they share
_BOLDNESS = 2.0  # times its variance by chance that a week must show
_CLIP = 3.0  # standard deviations of a day off that one day can teach
_DAYS_OFF = 4  # in a row that are looked back on
_OUTLIER = 4.0  # times the median, beyond which a variance counts no more


class Correction(Struct, frozen=True):
    """An addition to the usual level in one hour, (streams,)."""

    offset: Floats
    doubt: Floats  # variance
    weekdays: Floats  # (streams, 7): of whole days, from Monday, once two weeks show them


class LossSpread(Struct, frozen=True):
    """Scatter of a loss, (streams,)."""

    variance: Floats  # of a single loss
    phi: Floats  # over-dispersion

    @property
    def noise(self) -> Floats:
        """Variance of the mean of n losses, times n."""
        return self.variance * self.phi

    @property
    def day_off(self) -> Floats:
        """Variance of the effect of a day off that was not seen yet."""
        return UNSEEN**2 * self.variance


class _Past(Struct, frozen=True):
    """Three weeks, the last one first, each from the weekday of the hour in question on."""

    n: Floats  # (weeks that are kept, 7, 24, streams)
    error: Floats  # the same
    day_n: Floats  # (weeks, 7, streams)
    day: Floats  # error of a whole day

    @property
    def known(self) -> Bools:
        """Days with enough observations, (weeks, 7, streams)."""
        return np.asarray(self.day_n >= LEAST, dtype=np.bool_)


class _Common(Struct, frozen=True):
    """Effects that weeks have in common, shrunk; (cells, streams)."""

    effect: Floats
    variance: Floats
    weeks: Floats  # that are known


class _Effect(Struct, frozen=True):
    """Effect of a day with its variance, (streams,)."""

    mean: Floats
    variance: Floats


def correction(
    errors: HourErrors, hour: int, rows: slice, calendar: Calendar, spread: LossSpread
) -> Correction:
    """The correction of the usual level in an hour, from what was known two hours before it.

    Args:
        errors: of past hours.
        hour: since 1970.
        rows: of the streams.
        calendar: of days off.
        spread: of the losses of these streams.
    """
    first = calendar.first_hour(hour)
    past = _past(errors, first, rows, calendar)
    most = np.maximum(past.day_n.max(axis=(0, 1)), 1.0)
    days = _in_common(*_centred(past), spread.noise / most)
    off = np.array([calendar.is_off(60 * (first + 24 * day)) for day in range(-7, 1)])
    if calendar.is_holiday(60 * first):
        before = _holiday(days, off, spread)
    else:
        before = _weekday(days, past, off, spread)
    today = _with_today(before, _since(errors, hour, rows, calendar, days.weeks[0]), spread)
    of_hour = _hour(past, spread, min(hour - first, 23))
    weekdays = np.zeros_like(days.effect)
    numbers = (calendar.weekday(60 * first) + np.arange(7)) % 7
    weekdays[numbers] = np.where(days.weeks >= 2, days.effect, 0.0)
    offset, doubt = today.mean + of_hour.mean, today.variance + of_hour.variance
    return Correction(offset, doubt, weekdays.T)


def _past(errors: HourErrors, first: int, rows: slice, calendar: Calendar) -> _Past:
    """The three weeks before an hour in which a day begins, without holidays.

    Weeks at the end of which nothing is kept are left out of the hours.
    """
    hours = first - WEEK_HOURS * np.arange(1, WEEKS + 1)[:, None] + np.arange(WEEK_HOURS)
    weeks = int(np.flatnonzero([errors.holds(week) for week in hours]).max(initial=-1)) + 1
    kept = errors.read(hours[:weeks].reshape(-1), rows)
    n, error = (part.reshape(weeks, 7, 24, part.shape[1]) for part in kept)
    begins = hours[:weeks, ::24].tolist()
    off = [calendar.is_holiday(60 * day) for week in begins for day in week]
    n[np.array(off, dtype=np.bool_).reshape(weeks, 7)] = 0.0
    day_n, day = np.zeros((2, WEEKS, 7, n.shape[3]))
    day_n[:weeks] = n.sum(axis=2)
    day[:weeks] = (n * error).sum(axis=2) / np.maximum(day_n[:weeks], 1.0)
    return _Past(n, error, day_n, day)


def _centred(past: _Past) -> tuple[Floats, Bools]:
    """Errors of days (weeks, 7, streams), without what a week shares, and which are known.

    What they share is their mean without the highest and the lowest.
    """
    known = past.known
    count = known.sum(axis=1)
    enough = count >= _ENOUGH_DAYS
    inner = np.where(known, past.day, 0.0).sum(axis=1)
    for extreme in (
        np.where(known, past.day, -np.inf).max(axis=1),
        np.where(known, past.day, np.inf).min(axis=1),
    ):
        inner -= np.where(enough, extreme, 0.0)
    shared = np.where(enough, inner, 0.0) / np.maximum(count - 2.0, 1.0)
    return past.day - shared[:, None], known & enough[:, None]


def _in_common(values: Floats, known: Bools, noise: Floats) -> _Common:
    """Effects that weeks (weeks, cells, streams) have in common, shrunk over the cells of a stream.

    Args:
        values: of each week.
        known: where there are any.
        noise: variance of a value by chance, at least; (streams,).
    """
    weeks = known.sum(axis=0).astype(np.float64)
    several = weeks >= 2
    cells = np.maximum(several.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(weeks, 1.0)
    squares = np.where(known, np.square(values - mean), 0.0).sum(axis=0)
    chance = np.where(several, squares / np.maximum(weeks - 1.0, 1.0), np.nan)
    repeated = np.where(several, weeks, 0.0).sum(axis=0) / cells
    scatter = np.maximum(_steady_mean(chance), noise) / np.maximum(repeated, 1.0)
    effect = _agreed(values, known, weeks)
    signal = np.where(several, np.square(effect), 0.0).sum(axis=0) / cells
    kept = np.maximum(1.0 - _BOLDNESS * scatter / np.maximum(signal, 1e-12), 0.0)
    return _Common(
        np.where(several, kept * effect, effect), np.where(several, kept * scatter, 0.0), weeks
    )


def _agreed(values: Floats, known: Bools, weeks: Floats) -> Floats:
    """Of three weeks the median, of two the lesser if both have one sign, else nothing."""
    first, second, third = _three(np.where(known, values, np.inf))
    lower = np.minimum(np.minimum(first, second), third)
    middle = np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third))
    lesser = np.sign(lower) * np.minimum(np.abs(lower), np.abs(middle))
    of_two = np.where(np.sign(lower) == np.sign(middle), lesser, 0.0)
    agreed = np.where(weeks >= 3, middle, np.where(weeks == 2, of_two, lower))
    return np.where(weeks > 0, agreed, 0.0)


def _three(values: Floats) -> Floats:
    """Values of three weeks, infinite where there are none."""
    if len(values) == WEEKS:
        return values
    return np.concatenate([values, np.full((WEEKS - len(values), *values.shape[1:]), np.inf)])


def _steady_mean(values: Floats) -> Floats:
    """Mean over the first axis, NaN aside, in which outliers count little."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    ordered = np.sort(np.where(known, values, np.inf), axis=0)
    at = np.maximum(count - 1, 0) // 2
    median = np.where(count > 0, np.take_along_axis(ordered, at[None], axis=0)[0], 0.0)
    total = np.where(known, np.minimum(values, _OUTLIER * median), 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float64)


def _weekday(days: _Common, past: _Past, off: Bools, spread: LossSpread) -> _Effect:
    """Effect expected of a weekday before it begins.

    Args:
        days: effects, from its weekday on.
        past: what they were made of.
        off: whether each of the seven days before, and the day itself, is a day off.
        spread: of the losses.
    """
    weeks, known, alike = days.weeks[0], past.known[0], off[:7] == off[7]
    strange = known[~alike].any(axis=0)  # only days of the other sort are known to be usual
    sigma2 = spread.day_off
    if not off[7]:
        strange &= (weeks == 0) & ~known[alike].any(axis=0)
        mean = np.where(weeks >= 2, days.effect[0], 0.0)
        return _Effect(mean, np.where(strange, sigma2, days.variance[0]))
    scatter = spread.noise / np.maximum(past.day_n[:, 0].max(axis=0), 1.0) + DAY_EFFECT**2
    most = _CLIP * np.sqrt(sigma2)
    once = np.clip(days.effect[0], -most, most) * sigma2 / (sigma2 + scatter)
    left = 1.0 / (1.0 / sigma2 + weeks / scatter)
    variance = np.where(weeks < WEEKS, np.maximum(days.variance[0], left), days.variance[0])
    return _Effect(
        np.where(weeks == 1, once, days.effect[0]),
        np.where((weeks > 0) | strange, variance, 0.0),
    )


def _holiday(days: _Common, off: Bools, spread: LossSpread) -> _Effect:
    """Effect expected of a holiday: that of a weekend, with all the doubt."""
    known = off[:7, None] & (days.weeks >= 2)
    total = np.where(known, days.effect, 0.0).sum(axis=0)
    return _Effect(total / np.maximum(known.sum(axis=0), 1), spread.day_off)


def _since(
    errors: HourErrors, hour: int, rows: slice, calendar: Calendar, weeks: Floats
) -> tuple[Floats, Floats]:
    """Observations and errors of the day until two hours before; (hours, streams).

    Where the weekday was not seen in any week, also of the days before that are alike: Sunday is
    as Saturday was.
    """
    first = begin = calendar.first_hour(hour)
    for _ in range(_DAYS_OFF - 1):
        if calendar.is_off(60 * (begin - 1)) != calendar.is_off(60 * hour):
            break
        begin = calendar.first_hour(begin - 1)
    hours: Ints = np.arange(begin, hour - 1)
    n, error = errors.read(hours, rows)
    n[: first - begin, weeks > 0] = 0.0
    return n, error


def _with_today(before: _Effect, since: tuple[Floats, Floats], spread: LossSpread) -> _Effect:
    """Effect expected of an hour, after what was seen of its day."""
    n, error = since
    total = n.sum(axis=0)
    shown = (n * error).sum(axis=0) / np.maximum(total, 1.0)
    most = _CLIP * np.sqrt(spread.day_off)
    of_hour = UNSEEN_HOUR**2 * np.minimum(before.variance, spread.day_off)
    scatter = spread.noise / np.maximum(total, 1.0) + DAY_EFFECT**2
    scatter += of_hour / (1.0 + (n > 0.0).sum(axis=0) / 2.0)
    gain = np.where(total >= LEAST, before.variance / (before.variance + scatter), 0.0)
    mean = before.mean + gain * np.clip(shown - before.mean, -most, most)
    return _Effect(mean, before.variance * (1.0 - gain) + of_hour)


def _hour(past: _Past, spread: LossSpread, at: int) -> _Effect:
    """Effect of an hour beside that of its day, smoothed over three.

    Two weeks must know the hour: of the streams of which they do not, nothing else is read.
    """
    weeks, streams = len(past.n), past.n.shape[3]
    around = past.n[:, 0, max(at - 1, 0) : at + 2].sum(axis=1)
    known = (around >= LEAST) & past.known[:weeks, 0]
    taught = np.flatnonzero(known.sum(axis=0) >= 2)
    mean, variance = np.zeros((2, streams))
    if len(taught):
        # Of a single one numpy would add in another order.
        some = np.union1d(taught, np.arange(min(2, streams)))
        hours = _hours(past, some, spread.noise)
        several = hours.weeks[at] >= 2
        mean[some] = np.where(several, hours.effect[at], 0.0)
        variance[some] = np.where(several, hours.variance[at], 0.0)
    return _Effect(mean, variance)


def _hours(past: _Past, streams: Ints, noise: Floats) -> _Common:
    """Effects of the hours of a week beside those of their days, of some streams."""
    weeks = len(past.n)
    observed, error, day_n, day = (  # by take, which keeps streams beside each other in memory
        part[:weeks].take(streams, axis=-1) for part in (past.n, past.error, past.day_n, past.day)
    )
    n, lost = _smoothed(observed), _smoothed(observed * error)
    values = lost / np.maximum(n, 1.0) - day[:, :, None]
    known = (n >= LEAST) & (day_n >= LEAST)[:, :, None]
    cells = (weeks, WEEK_HOURS, -1)
    most = np.maximum(n.max(axis=(0, 1, 2)), 1.0)
    return _in_common(values.reshape(cells), known.reshape(cells), noise[streams] / most)


def _smoothed(values: Floats) -> Floats:
    """Sums over an hour and those beside it, within a day; (weeks, 7, 24, streams)."""
    total = values.copy()
    total[:, :, 1:] += values[:, :, :-1]
    total[:, :, :-1] += values[:, :, 1:]
    return total
