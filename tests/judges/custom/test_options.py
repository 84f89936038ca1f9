"""Settings of custom judges: what is refused, and with which words."""

import pytest
from pydantic import ValidationError

from ragmon.config import load
from ragmon.errors import SettingsError
from ragmon.judges.custom.check import check
from ragmon.judges.custom.options import Options, read_prompt, score_of

LLM = {"judge.llm.base_url": "http://localhost:1/v1"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"name": "Tone"}, "pattern", id="a name with a capital"),
        pytest.param({"name": "a-b"}, "pattern", id="a name that is no word"),
        pytest.param({"name": "llm"}, "built-in", id="the name of a built-in judge"),
        pytest.param({"name": "llm_corrected"}, "built-in", id="the name of a corrected mean"),
        pytest.param({"prompt_file": None}, "needs prompt_file", id="no prompt"),
        pytest.param({"entry": "a:b"}, "has no entry", id="a prompt and a function"),
        pytest.param({"scale": "0-1"}, "python", id="a fraction of a language model"),
        pytest.param({"kind": "python"}, "needs entry", id="no function"),
        pytest.param(
            {"kind": "python", "prompt_file": None, "entry": "module"},
            "package.module:function",
            id="a module alone",
        ),
    ],
)
def test_a_judge_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        Options.model_validate({"name": "tone", "prompt_file": "tone.txt"} | fields)


def test_two_judges_of_a_name_are_refused():
    judges = [{"name": "tone", "prompt_file": "tone.txt"}] * 2
    with pytest.raises(SettingsError, match="same name"):
        load(None, LLM | {"judge.custom": judges}, {})


def test_a_prompt_without_a_model_is_refused():
    with pytest.raises(SettingsError, match=r"needs judge\.llm"):
        check([Options(name="tone", prompt_file="tone.txt")], has_model=False)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        pytest.param(None, "No such file", id="no file"),
        pytest.param("Grade it.", r"no \$answer", id="nothing to grade"),
        pytest.param("Grade $answer for $user.", r"\$user", id="an unknown placeholder"),
        pytest.param("Grade $answer, 5$.", "without a name", id="a dollar"),
        pytest.param("$answer" + "x" * 20_000, "longer", id="a book"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(tmp_path, prompt, message):
    file = tmp_path / "tone.txt"
    if prompt is not None:
        file.write_text(prompt)
    with pytest.raises(SettingsError, match=message):
        check([Options(name="tone", prompt_file=file)], has_model=True)


def test_a_prompt_names_what_it_reads(tmp_path):
    file = tmp_path / "tone.txt"
    file.write_text("Grade the tone of $answer to $question; it costs $$1.\n")
    assert sorted(read_prompt(Options(name="tone", prompt_file=file)).get_identifiers()) == [
        "answer",
        "question",
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param("no_such_module:tone", "cannot import no_such_module", id="no module"),
        pytest.param("json:no_such", "has no function no_such", id="no function"),
        pytest.param("json:__name__", "has no function", id="not a function"),
    ],
)
def test_a_function_that_cannot_be_imported_is_refused_at_start(entry, message):
    with pytest.raises(SettingsError, match=message):
        check([Options(name="tone", kind="python", entry=entry)], has_model=True)


def test_a_function_that_can_be_imported_is_taken():
    check([Options(name="length", kind="python", entry="json:dumps")], has_model=True)


@pytest.mark.parametrize(
    ("value", "scale", "score"),
    [
        (1, "1-5", 0.0),
        (4, "1-5", 0.75),
        (0.3, "0-1", 0.3),
        (True, "yes-no", 1.0),
        (False, "yes-no", 0.0),
    ],
)
def test_what_a_function_returns_becomes_a_score(value, scale, score):
    assert score_of(value, scale) == score


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (0, "1-5"),
        (6, "1-5"),
        (True, "0-1"),
        (1, "yes-no"),
        (float("nan"), "0-1"),
        ("5", "1-5"),
        pytest.param(10**400, "1-5", id="more than a float holds"),
        pytest.param(-(10**400), "0-1", id="less than one"),
        (-(10**400), "0-1"),
    ],
)
def test_what_is_off_the_scale_is_no_score(value, scale):
    with pytest.raises(ValueError, match="returned"):
        score_of(value, scale)
