"""Shares as people read them: ``33.1 %``."""


def percent_text(share: float, decimals: int = 1) -> str:
    """A share in [0, 1] as a percentage.

    Args:
        share: 0.331.
        decimals: after the point; 0 where the share is itself a round number or an estimate.
    """
    return f"{100.0 * share:.{decimals}f} %"
