"""No text that arrives may take more than linear time: each pattern of the package is attacked."""

import re
import time

import pytest

from ragmon.sources.otlp.reading import values
from tests.support.patterns import MOST_S, patterns_of, patterns_within, slowest

OWN_TEXTS = (
    "ragmon.demo.",  # reads the packaged corpus alone
    "ragmon.signals.refusal_phrases._REPEATED",  # reads patterns, as the next
    "ragmon.signals.refusal_phrases._WIDE_GAP",
)
PATTERNS = {
    name: pattern
    for name, pattern in (patterns_of("ragmon") | patterns_within("ragmon")).items()
    if not name.startswith(OWN_TEXTS)
}


def test_the_patterns_are_found():
    assert len(PATTERNS) > 80
    assert any(name.startswith("ragmon.sinks.slack:") for name in PATTERNS), "also within functions"
    assert "ragmon.word_pieces.ascii_words" in PATTERNS, "also where a method alone has a name"
    tables = [name for name in PATTERNS if "refusal_phrases._LANGUAGES[" in name]
    assert len(tables) > 40, "also in tables"


@pytest.mark.parametrize("name", PATTERNS)
def test_no_text_is_slow(name):
    took, size, text = slowest(PATTERNS[name])
    assert took < MOST_S, f"{took:.2f} s for {size} characters like {text!r}"


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"(a+)+$", id="exponential"),
        pytest.param(r"\n\s*x", id="quadratic in blank lines"),
        pytest.param(r"q:\s*(.+?)\s*(?:\n\s*a:|\Z)", id="cubic"),
    ],
)
def test_the_attack_finds(pattern):
    took, _, _ = slowest(re.compile(pattern, re.DOTALL))
    assert took > MOST_S


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        pytest.param(values.asked, "Question: a{}b", "a{}b", id="a question with white space"),
        pytest.param(values.asked, "{}b", "{}b", id="blank lines and no question"),
        pytest.param(values.asked, "Question:{}b\nAnswer: c", "b", id="white space before it"),
        pytest.param(values.asked, "Query: a\nAnswer: b\nQuery: c{}", "c", id="the last of two"),
        pytest.param(values.clean, "[[ ## answer ## ]]x{}b", "x{}b", id="a section"),
        pytest.param(values.clean, "[[ ## answer ## ]]{}x{}[[ ## done ## ]]", "x", id="its end"),
    ],
)
@pytest.mark.parametrize("space", [" ", "\n", "\t\n"])
def test_white_space_that_a_user_types_costs_linear_time(read, text, expected, space):
    gap = space * 200_000
    began = time.process_time()
    assert read(text.replace("{}", gap)) == expected.replace("{}", gap)
    assert time.process_time() - began < 1.0
