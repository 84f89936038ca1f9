"""The house rules hold: one word per thing, plain openings, small pieces."""

import pytest

from tests.support import house
from tests.support.paths import ROOT

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in ("ragmon", "grafana")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
_FOLDERS = ("ragmon", "tests", "grafana", "deploy", "helm")
_TEXTS = {".json", ".md", ".py", ".toml", ".txt", ".yaml"}
PACKAGE = {name: source for name, source in SOURCES.items() if name.startswith("ragmon/")}
DASHBOARDS = {name: source for name, source in SOURCES.items() if name.startswith("grafana/")}


def findings(check, sources):
    assert len(sources) > 5  # an empty folder would pass
    return [f"{name}: {finding}" for name, text in sources.items() for finding in check(text)]


def test_the_package_is_read():
    assert {"ragmon/records.py", "ragmon/daemon/serve.py"} <= PACKAGE.keys()
    assert len(PACKAGE) > 300


def test_docstrings_open_with_a_noun_phrase_or_an_imperative():
    assert findings(house.docstring_openings, SOURCES) == []


def test_variables_are_named_by_type_or_role():
    assert findings(house.vague_names, SOURCES) == []


def test_no_retired_word_is_left_in_a_name():
    assert findings(house.retired_words, SOURCES) == []


def test_no_module_is_named_by_a_retired_word():
    names = [part.removesuffix(".py") for path in SOURCES for part in path.split("/")]
    assert house.RETIRED_WORDS.isdisjoint(word for name in names for word in name.split("_"))


def test_a_class_name_stands_for_one_class():
    assert house.repeated_classes(PACKAGE) == {}


def test_functions_constructors_and_modules_are_small():
    promised = "ragmon/client/monitor.py"  # applications call its constructor: it stays as it is
    assert promised in SOURCES
    sources = {name: source for name, source in SOURCES.items() if name != promised}
    assert findings(house.too_large, sources) == []


def test_no_conflict_is_left():
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    texts = [
        path
        for folder in _FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in _TEXTS and path.is_file()
    ]
    assert len(texts) > 500
    assert [
        str(path)
        for path in texts
        if any(line.startswith(marks) for line in path.read_text("utf-8").splitlines())
    ] == []


def test_dashboards_use_no_private_name():
    assert findings(house.private_uses, DASHBOARDS) == []


@pytest.mark.parametrize(
    ("check", "source", "count"),
    [
        pytest.param(house.docstring_openings, '"""What it does."""', 1, id="a question opens"),
        pytest.param(house.docstring_openings, '"""Retry loop."""', 0, id="a noun phrase opens"),
        pytest.param(
            house.docstring_openings, 'X = 1\n"""How many there are."""', 1, id="of a constant"
        ),
        pytest.param(house.docstring_openings, "1\n''", 0, id="no text"),
        pytest.param(house.vague_names, "for each in rows:\n    pass", 1, id="a loop"),
        pytest.param(house.vague_names, "[each for each in rows]", 0, id="a comprehension"),
        pytest.param(
            house.vague_names, "[\n    each\n    for each in rows\n]", 1, id="a long comprehension"
        ),
        pytest.param(house.vague_names, "def f(given): ...", 1, id="a parameter"),
        pytest.param(house.vague_names, "self._held = 1", 1, id="an attribute"),
        pytest.param(house.vague_names, "def found(): ...", 1, id="a function"),
        pytest.param(house.retired_words, "class JudgeDocket: ...", 1, id="in camel case"),
        pytest.param(house.retired_words, "def _lane_of(): ...", 1, id="in snake case"),
        pytest.param(house.retired_words, "self.HTTPTrail = 1", 1, id="after capitals"),
        pytest.param(house.retired_words, "trailing, planes = 1, 2", 0, id="part of a word"),
        pytest.param(house.too_large, "x\n" * 401, 1, id="a long module"),
        pytest.param(house.too_large, "def f():\n" + "    x\n" * 50, 1, id="a long function"),
        pytest.param(
            house.too_large, "def __init__(self, a, b, c, d, *, e, f, g): ...", 1, id="arguments"
        ),
        pytest.param(house.too_large, "def __init__(self, a, b): ...", 0, id="few arguments"),
        pytest.param(house.private_uses, "from a import _b", 1, id="a private name"),
        pytest.param(house.private_uses, "a._b", 1, id="a private attribute"),
        pytest.param(house.private_uses, "self._b\na.__name__", 0, id="one's own"),
    ],
)
def test_a_checker_sees(check, source, count):
    assert len(list(check(source))) == count


def test_a_class_name_in_two_modules_is_seen():
    sources = {
        "a": "class Place: ...\nclass Options: ...",
        "b": "class Place: ...\nclass Options: ...",
    }
    assert house.repeated_classes(sources) == {"Place": ["a", "b"]}
