"""Counts as people read them: ``1 query``, ``2,000 queries``."""


def counted(number: float, one: str, many: str = "") -> str:
    """A number with its noun.

    Args:
        number: how many; rounded to a whole one.
        one: the noun of a single one.
        many: its plural; by default ``one`` with an s.
    """
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"
