"""Shares as people read them: ``33.1 %``."""


def percent_text(share: float, decimals: int = 1) -> str:
    """A share in [0, 1] as a percentage; what is not quite none or all does not read as it.

    Args:
        share: 0.331.
        decimals: after the point; 0 where the share is itself a round number or an estimate.
    """
    if share in (0.0, 1.0):
        return f"{100.0 * share:.0f} %"
    step = 0.1**decimals
    if 0.0 < share < 0.005 * step:
        return f"<{step:.{decimals}f} %"
    if 1.0 - 0.005 * step < share < 1.0:
        return f">{100.0 - step:.{decimals}f} %"
    return f"{100.0 * share:.{decimals}f} %"


def precise_percent(share: float, estimate: float | None = None) -> str:
    """A share with two decimals near 0 % and 100 %, where one would hide what matters.

    Args:
        share: 0.331.
        estimate: share whose decimals it takes, as the ends of an interval do, which are rounded
            to 0 % and 100 % too.
    """
    nearest = share if estimate is None else estimate
    decimals = 1 if 0.01 <= nearest <= 0.99 else 2
    return percent_text(share if estimate is None else round(share, decimals + 2), decimals)


def percent_range(lower: float, upper: float, estimate: float | None = None) -> str:
    """An interval of a share: ``61.0 – 70.2 %``."""
    nearest = 0.5 if estimate is None else estimate
    low, high = (precise_percent(end, nearest) for end in (lower, upper))
    return f"{low.removesuffix(' %')} – {high}"


def points_text(change: float, decimals: int = 1) -> str:
    """A change of a share: ``-3.4 points`` from 80.0 % to 76.6 %."""
    points = round(100.0 * change, decimals)
    return f"{points:+.{decimals}f} points" if points else "0 points"
