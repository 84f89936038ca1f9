"""Documentation pages become readable blocks."""

import pytest

from ragmon.demo.markup import prose, sections

PAGE = """The "for" statement
*******************

It repeats a suite of statements:

   for_stmt ::= "for" target_list

str.find(sub)

   Return the lowest index, see **PEP 1**.

   Note:

     Use "in" instead.

Empty section
=============

Table
=====

+------------+----------------+
| Type       | Meaning        |
|============|================|
| "\'d\'"      | Base 10, the   |
|            | default        |
+------------+----------------+
"""


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        pytest.param('use "x.y" here', "use `x.y` here", id="literals get backticks"),
        pytest.param("*name* is **bold**", "name is bold", id="emphasis goes"),
        pytest.param('"10**2" and "3**4"', "`10**2` and `3**4`", id="a power is not emphasis"),
        pytest.param("left-\nhand  side", "left-hand side", id="hyphens close up"),
        pytest.param('"__a__" and "__b__"', "`__a__` and `__b__`", id="dunders keep their dashes"),
    ],
)
def test_prose(paragraph, expected):
    assert prose(paragraph) == expected


def test_a_page_is_cut_at_its_headings_and_keeps_together_what_belongs_together():
    found = sections(PAGE)
    assert [section.title for section in found] == ["The `for` statement", "Table"]
    assert found[0].blocks == (
        'It repeats a suite of statements:\nfor_stmt ::= "for" target_list',
        "str.find(sub)\nReturn the lowest index, see PEP 1.",
        "Note: Use `in` instead.",
    )


def test_a_table_reads_row_by_row():
    (block,) = sections(PAGE)[1].blocks
    assert block == "Type: Meaning\n`'d'`: Base 10, the default"
