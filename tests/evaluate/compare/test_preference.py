import msgspec
import pytest

from ragmon.evaluate.compare.preference import CandidatePair, preferences
from ragmon.evaluate.score.judge_usage import UsageSummary


class Likes:
    """Prefers the longer answer, the first of two, or neither."""

    name = "likes"
    concurrency = 1

    def __init__(self, what):
        self.what = what

    def usage(self):
        return UsageSummary(name=self.name)

    def prefer(self, shown):
        _, first, second, _ = shown
        if self.what == "fails":
            return None
        if self.what in ("first", "second", "tie"):
            return self.what
        if len(first) == len(second):
            return "tie"
        return "first" if len(first) > len(second) else "second"


PAIRS = [
    CandidatePair("q", "short", "much longer"),
    CandidatePair("q", "very long", "x"),
    CandidatePair("q", "a", "b"),
]


@pytest.mark.parametrize(
    ("likes", "counts", "share", "bias"),
    [
        pytest.param("longer", (1, 1, 1, 0), 0.5, None, id="a steady judge"),
        pytest.param("first", (0, 0, 3, 3), None, 1.0, id="whatever stands first"),
        pytest.param("second", (0, 0, 3, 3), None, -1.0, id="whatever stands second"),
        pytest.param("tie", (0, 0, 3, 0), None, None, id="cannot tell"),
        pytest.param("fails", (0, 0, 0, 0), None, None, id="cannot be asked"),
    ],
)
def test_only_what_survives_the_swap_counts(likes, counts, share, bias):
    found = preferences(PAIRS, Likes(likes))
    assert (found.wins, found.losses, found.ties, found.inconsistent) == counts
    assert (found.win_share, found.position_bias) == (share, bias)
    assert (found.interval is None) == (share is None)
    assert found.failed == (3 if likes == "fails" else 0)


def test_equal_answers_are_a_tie_that_nobody_is_asked_about():
    assert preferences([CandidatePair("q", "the same", "the  same\n")], Likes("fails")).ties == 1


def test_usage_keeps_its_name_in_json():
    content = msgspec.to_builtins(preferences(PAIRS, Likes("fails")))
    assert content["account"]["name"] == "likes"
    assert "usage" not in content
