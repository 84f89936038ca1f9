"""Settings files that are odd on purpose: file, line and key, never a traceback."""

import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.config import load
from ragmon.config.yaml_text import parse, where
from ragmon.errors import SettingsError

ODD = (
    "port", "limits", "body", "windows", "sinks", "auth", ":", ": ", "- ", "\n", "\n  ", "{", "}",
    "[", "]", ",", "!!int z", "!!timestamp x", "!!float", "!!binary =", "!!set {a}", "!!omap [a]",
    "!!pairs [1]", "!!bool maybe", "!!null x", "!!python/object:os.system x", "2026-13-01",
    "2026-02-30", "2026-01-01T99:00:00Z", "2026-01-01 00:00:00 +99:99", "0x", "0b2", "0o9", "1__0",
    "190:99:99", ".inf", ".nan", "1e999", "&a", "*a", "<<", "<<: *a", "|", ">", "'", '"', "?", "%",
    "\x00", "\u2028", "9" * 5_000, "---", "...", "\t", "~", "!!str 1", "? [1]", "{}: 1", "0.0.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        pytest.param("port: !!int z", "line 1, column 7", "port: `z`", id="no number"),
        pytest.param(
            "log:\n  level: !!timestamp x", "line 2, column 10", "log.level", id="no time"
        ),
        pytest.param("host: 2026-13-01", "line 1, column 7", "host: `2026-13-01`", id="13th month"),
        pytest.param("sinks:\n- url: 2026-02-30", "line 2", "sinks.0.url", id="30 February"),
        pytest.param("port: !!float", "line 1", "port", id="a number without digits"),
        pytest.param("port: !!bool maybe", "line 1", "port", id="neither yes nor no"),
        pytest.param(f"port: {'9' * 5_000}", "line 1, column 7", "port", id="5,000 digits"),
        pytest.param("? [1]\n: 2", "line 1", "unhashable", id="a list for a key"),
        pytest.param("port: !!python/name:os.system x", "line 1", "port", id="foreign tag"),
        pytest.param("a: 1\na: 2", "line 1, column 1", "`a` is given twice", id="a key twice"),
        pytest.param("log: !!map x", "line 1, column 6", "log: this is not a", id="no mapping"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_named_with_line_and_key(tmp_path, text, place, key):
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load(path, None, {})
    message = str(refused.value)
    assert message.startswith(f"{path} is not YAML: {place}")
    assert key in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: " + "[" * 5_000, "nested too deeply", id="5,000 brackets"),
        pytest.param("a: " + "[" * 60 + "]" * 60, "more than 50 levels", id="60 brackets"),
        pytest.param("a: &x [*x]", "alias inside itself", id="a list that holds itself"),
        pytest.param("a: &x {b: *x}", "alias inside itself", id="a mapping that holds itself"),
        pytest.param(
            "l0: &l0 [a, a, a, a, a, a, a, a, a, a]\n"
            + "".join(f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]\n" for at in range(1, 9)),
            "more than 100000 values",
            id="a billion laughs",
        ),
    ],
)
def test_what_is_endless_or_huge_is_refused(text, problem):
    with pytest.raises(yaml.YAMLError) as refused:
        parse(text)
    assert problem in where(refused.value)


def test_aliases_and_merges_are_read():
    assert parse("a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: *x") == {
        "a": {"b": 1},
        "c": {"b": 1, "d": 2},
        "e": {"b": 1},
    }


@given(st.lists(st.sampled_from(ODD), max_size=12).map(" ".join))
@settings(max_examples=300)
def test_any_mixture_is_settings_or_an_error_that_says_where(tmp_path_factory, text):
    check(tmp_path_factory.getbasetemp() / "mixed.yaml", text)


def test_any_damage_to_a_file_that_works_is_an_error_that_says_where(tmp_path):
    rng = random.Random(7)
    working = "port: 8321\nwindows: [5m, 1h]\nlimits:\n  body: 32MiB\nsinks:\n- kind: stdout\n"
    for _ in range(300):
        text = list(working)
        for _ in range(rng.randint(1, 3)):
            text.insert(rng.randrange(len(text)), rng.choice(ODD))
        check(tmp_path / "damaged.yaml", "".join(text))


@given(st.sampled_from(["PORT", "LIMITS__BODY", "WINDOWS", "SINKS", "AUTH"]), st.sampled_from(ODD))
def test_variables_are_read_alike(name, text):
    assert "\n" not in message_of(lambda: load(None, None, {f"RAGMON_{name}": text}))


def check(path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    message = message_of(lambda: load(path, None, {}))
    assert not message or str(path) in message or "settings" in message, message


def message_of(attempt) -> str:
    """The text of the error, empty without one."""
    try:
        attempt()
    except SettingsError as error:
        return str(error)
    return ""
