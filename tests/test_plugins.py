"""A kind is a file: found by its name, missed with the nearest one named."""

import importlib

import pytest
from pydantic import BaseModel

from ragmon.errors import SettingsError
from ragmon.plugins import check_options, find, kinds, nearest, resolve

FOLDERS = ["ragmon.sources", "ragmon.stores", "ragmon.sinks", "ragmon.judges", "ragmon.detectors"]


def every_plugin():
    return [(folder, kind) for folder in FOLDERS for kind in kinds(folder)]


@pytest.mark.parametrize(
    ("folder", "plugins", "others"),
    [
        # http is always there and never configured
        pytest.param("ragmon.sources", {"jsonl"}, {"http", "bodies", "otlp"}, id="sources"),
        pytest.param("ragmon.stores", {"sqlite"}, {"protocols", "amendments"}, id="stores"),
        pytest.param("ragmon.sinks", {"webhook", "slack", "stdout"}, set(), id="sinks"),
        pytest.param("ragmon.judges", {"llm"}, {"grounding", "budget", "worker"}, id="judges"),
        pytest.param("ragmon.detectors", {"slo", "canary"}, {"rules", "core"}, id="detectors"),
    ],
)
def test_the_kinds_that_ship(folder, plugins, others):
    assert plugins <= set(kinds(folder))
    assert not others & set(kinds(folder))


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
    ("values", "problem"),
    [
        pytest.param(
            {"kind": "jsonll"},
            "sources.0: unknown kind 'jsonll'; did you mean `jsonl`?",
            id="a typo",
        ),
        pytest.param(
            {"kind": "zzzzz"}, "sources.0: unknown kind 'zzzzz'; known are jsonl", id="unlike any"
        ),
        pytest.param({}, "sources.0: `kind` is missing; known are jsonl", id="no kind"),
        pytest.param({"kind": None}, "sources.0: `kind` is missing", id="a kind of null"),
        pytest.param({"kind": "../stores/sqlite"}, "unknown kind", id="a path"),
        pytest.param({"kind": "http"}, "unknown kind 'http'", id="one that is not configured"),
        pytest.param({"kind": "jsonl"}, "sources.0.path: Field required", id="a missing option"),
        pytest.param(
            {"kind": "jsonl", "path": "a", "pth": "b"},
            "sources.0.pth: unknown option; did you mean `path`?",
            id="an unknown option",
        ),
        pytest.param(
            {"kind": "jsonl", "path": "a", "zzz": "b"},
            "sources.0.zzz: unknown option; known are path",
            id="an option unlike any",
        ),
        pytest.param(
            {"kind": "jsonl", "path": "a", "poll_s": 0}, "sources.0.poll_s: ", id="a bad value"
        ),
        pytest.param(
            {"kind": "jsonl", "pth": "a"},
            "sources.0.path: Field required; sources.0.pth: unknown option",
            id="two problems",
        ),
    ],
)
def test_what_cannot_be_used_is_explained(values, problem):
    with pytest.raises(SettingsError) as caught:
        resolve("ragmon.sources", "sources.0", values)
    assert problem in str(caught.value)


def test_options_arrive_checked():
    module, options = resolve("ragmon.sources", "sources.0", {"kind": "jsonl", "path": "a.log"})
    assert module.__name__ == "ragmon.sources.jsonl"
    assert options.records == "queries"


class Inner(BaseModel, extra="forbid"):
    depth: int = 0


class Outer(BaseModel, extra="forbid"):
    inner: Inner = Inner()
    secret: int = 0


def test_a_value_is_not_shown_since_it_may_be_a_secret():
    with pytest.raises(SettingsError) as caught:
        check_options(Outer, "store", {"secret": "hunter2"})
    assert str(caught.value).startswith("store.secret: ")
    assert "hunter2" not in str(caught.value)


def test_an_unknown_option_inside_of_an_option_is_not_compared_with_the_outer_ones():
    with pytest.raises(SettingsError) as caught:
        check_options(Outer, "store", {"inner": {"secrt": 1}})
    assert str(caught.value) == "store.inner.secrt: unknown option"


def test_the_nearest_name():
    assert nearest("prot", ["port", "host"]) == "port"
    assert nearest("zzzz", ["port", "host"]) == ""
