"""A kind is a file: found by its name, missed with the nearest one named."""

import importlib

import pytest
from pydantic import BaseModel

from ragmon.daemon.build import resolve
from ragmon.errors import SettingsError
from ragmon.plugins import find, kinds

FOLDERS = ["ragmon.sources", "ragmon.stores"]


def every_plugin():
    return [(folder, kind) for folder in FOLDERS for kind in kinds(folder)]


def test_the_kinds_that_ship():
    assert "jsonl" in kinds("ragmon.sources")
    assert "http" not in kinds("ragmon.sources")  # always there, never configured
    assert "sqlite" in kinds("ragmon.stores")


@pytest.mark.parametrize(("folder", "kind"), every_plugin())
def test_every_plugin_keeps_the_contract(folder, kind):
    module = importlib.import_module(f"{folder}.{kind}")
    assert find(folder, kind, "setting") is module
    assert issubclass(module.Options, BaseModel)
    assert module.Options.model_config["extra"] == "forbid"
    assert module.Options.model_config["frozen"]
    assert callable(module.build)
    assert module.__doc__


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"kind": "jsonll"}, ["'jsonll'", "Did you mean jsonl"], id="a typo"),
        pytest.param({"kind": "zzzzz"}, ["'zzzzz'", "jsonl"], id="nothing like it"),
        pytest.param({}, ["sources.0", "jsonl"], id="no kind"),
        pytest.param({"kind": None}, ["sources.0"], id="a kind of null"),
        pytest.param({"kind": "../stores/sqlite"}, ["unknown kind"], id="a path"),
        pytest.param({"kind": "http"}, ["unknown kind"], id="one that is not configured"),
        pytest.param({"kind": "jsonl"}, ["sources.0.path", "required"], id="a missing option"),
        pytest.param(
            {"kind": "jsonl", "path": "a", "pth": "b"}, ["sources.0.pth"], id="an unknown option"
        ),
        pytest.param(
            {"kind": "jsonl", "path": "a", "poll_s": 0}, ["sources.0.poll_s"], id="a bad value"
        ),
    ],
)
def test_what_cannot_be_used_is_explained(given, said):
    with pytest.raises(SettingsError) as caught:
        resolve("ragmon.sources", "sources.0", given)
    assert [part for part in said if part not in str(caught.value)] == []


def test_options_arrive_checked():
    module, options = resolve("ragmon.sources", "sources.0", {"kind": "jsonl", "path": "a.log"})
    assert module.__name__ == "ragmon.sources.jsonl"
    assert options.records == "queries"
