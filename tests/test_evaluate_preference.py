import pytest

from ragmon.evaluate.preference import Duel, preferences


class Likes:
    """Prefers the longer answer, the first of two, or neither."""

    name = "likes"

    def __init__(self, what):
        self.what = what

    def prefer(self, query, first, second):
        if self.what in ("first", "second", "tie"):
            return self.what
        if len(first) == len(second):
            return "tie"
        return "first" if len(first) > len(second) else "second"


DUELS = [Duel("q", "short", "much longer"), Duel("q", "very long", "x"), Duel("q", "a", "b")]


@pytest.mark.parametrize(
    ("likes", "counts", "share", "bias"),
    [
        pytest.param("longer", (1, 1, 1, 0), 0.5, None, id="a steady judge"),
        pytest.param("first", (0, 0, 3, 3), None, 1.0, id="whatever stands first"),
        pytest.param("second", (0, 0, 3, 3), None, -1.0, id="whatever stands second"),
        pytest.param("tie", (0, 0, 3, 0), None, None, id="cannot tell"),
    ],
)
def test_only_what_survives_the_swap_counts(likes, counts, share, bias):
    found = preferences(DUELS, Likes(likes))
    assert (found.wins, found.losses, found.ties, found.inconsistent) == counts
    assert (found.win_share, found.position_bias) == (share, bias)
    assert (found.interval is None) == (share is None)
