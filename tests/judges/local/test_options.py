"""Settings of the local judge: what is refused before anything is loaded, and how it is said."""

import pytest
from pydantic import ValidationError

from ragmon.config import load
from ragmon.errors import SettingsError
from ragmon.judges.local import options as local
from ragmon.judges.local.options import Options, check, read_prompt


@pytest.fixture
def installed(monkeypatch):
    """The extra, as far as a look for it goes."""
    monkeypatch.setattr(local, "find_spec", lambda name: name)


def test_without_the_extra_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"torch and transformers.*'\.\[local-judge\]'"):
        check(Options(kind="nli", model=str(tmp_path)))


@pytest.mark.parametrize("model", ["/models/none", "./none", "~/none"])
def test_a_directory_without_a_model_is_refused(installed, model):
    with pytest.raises(SettingsError, match=r"config\.json"):
        check(Options(kind="nli", model=model))


def test_a_name_on_the_hub_is_no_directory(installed):
    options = Options(kind="lettucedetect", model="KRLabsOrg/lettucedect-base-modernbert-en-v1")
    assert options.directory is None
    assert not options.allow_download
    check(options)


def test_a_prompt_needs_a_place_for_the_passages(installed, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    prompt = tmp_path / "prompt.txt"
    options = Options(kind="lettucedetect", model=str(tmp_path), prompt_file=prompt)
    with pytest.raises(SettingsError, match="prompt_file"):
        check(options)
    prompt.write_text("Frage: ${question}")
    with pytest.raises(SettingsError, match=r"\$context"):
        check(options)
    prompt.write_text("Frage: ${question}\n${context}")
    check(options)
    assert read_prompt(options) == prompt.read_text()


@pytest.mark.parametrize(
    "wrong", [{"kind": "bert"}, {"batch": 0}, {"max_cpu": 0}, {"window": 10}, {"modell": "x"}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        Options.model_validate({"kind": "nli", "model": "m"} | wrong)


def test_it_is_off_unless_it_is_configured_and_flags_can():
    assert load(None, {}, {}).settings.judge.local is None
    flags = {"judge.local.kind": "minicheck", "judge.local.model": "/m", "judge.local.batch": 4}
    assert load(None, flags, {}).settings.judge.local == Options(
        kind="minicheck", model="/m", batch=4
    )
