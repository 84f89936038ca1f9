"""Shares as people read them: ``33.1 %``."""


def percent_text(share: float, decimals: int = 1) -> str:
    """A share in [0, 1] as a percentage.

    Args:
        share: 0.331.
        decimals: after the point; 0 where the share is itself a round number or an estimate.
    """
    return f"{100.0 * share:.{decimals}f} %"


def precise_percent(share: float, estimate: float | None = None) -> str:
    """A share with two decimals near 0 % and 100 %, where one would hide what matters.

    Args:
        share: 0.331.
        estimate: share whose decimals it takes, as the ends of an interval do.
    """
    nearest = share if estimate is None else estimate
    return percent_text(share, 1 if 0.01 <= nearest <= 0.99 else 2)
