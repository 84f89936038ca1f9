"""Citation markers in answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.citations import parse, without_markers

IDS = ["intro", "api-3", "7", "faq/pay"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("It is so [1].", ["intro"], id="a number, counted from 1"),
        pytest.param("It is so [api-3].", ["api-3"], id="an id"),
        pytest.param("One [1][2] two [2].", ["intro", "api-3"], id="several, each once"),
        pytest.param("All [1, 2; faq/pay].", ["intro", "api-3", "faq/pay"], id="a list"),
        pytest.param("See [^2].", ["api-3"], id="a footnote"),
        pytest.param("See [7].", ["7"], id="a number that is an id is the id"),
        pytest.param("Late [4] first [1].", ["faq/pay", "intro"], id="in the order of the text"),
        pytest.param("One [1], none [9].", ["intro", "9"], id="beyond the chunks: never retrieved"),
        pytest.param("[2](https://example.org)", ["api-3"], id="a link with a number"),
        pytest.param("Nothing is cited.", None, id="no marker"),
        pytest.param("", None, id="nothing"),
        pytest.param("In [2024] and [see above].", None, id="a year and a remark"),
        pytest.param("Only [9].", None, id="nothing that was retrieved"),
        pytest.param("[1] [999] [1000]", ["intro", "999"], id="at most three digits"),
        pytest.param("[0]", None, id="zero is no position"),
        pytest.param("[-1]", None, id="nor is minus one"),
        pytest.param("[²] [٣]", None, id="nor are other digits"),
        pytest.param("`row[1]` and ```\na[2]\n```", None, id="code is no citation"),
        pytest.param("`row[1]`, so [2].", ["api-3"], id="a citation beside code"),
        pytest.param("```\nnever closed [1]", None, id="code that does not end"),
        pytest.param("[[1]]", ["intro"], id="doubled brackets"),
        pytest.param("[1\n]", None, id="a marker does not go over lines"),
        pytest.param("[" + "x" * 300 + "] [1]", ["intro"], id="a long remark"),
    ],
)
def test_markers(answer, expected):
    assert parse(answer, IDS) == expected


def test_without_chunks_nothing_can_be_cited():
    assert parse("So [1].", []) is None


@given(
    st.text(alphabet="[]^,;0123 abz`\n", max_size=60), st.lists(st.sampled_from("abz1"), max_size=5)
)
def test_any_answer_cites_distinct_ids_one_of_them_retrieved(answer, ids):
    cited = parse(answer, ids)
    if cited is not None:
        assert len(cited) == len(set(cited)) > 0
        assert set(cited) & set(ids)


def test_brackets_without_end_take_no_time():
    assert parse("[" * 200_000 + "`" * 200_001, ["a"]) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("It is so [1].", "It is so .", id="a number"),
        pytest.param("One [1][api-3] two [^2], [1; 9].", "One  two , .", id="all that cite"),
        pytest.param("In [2024] it was [1].", "In [2024] it was .", id="not the others"),
        pytest.param("`row[1]`, so [2].", "`row[1]`, so .", id="nor code"),
        pytest.param("row[9] is first", "row[9] is first", id="nothing where nothing is cited"),
    ],
)
def test_what_an_answer_says_beside_its_markers(answer, expected):
    assert without_markers(answer, IDS) == expected
