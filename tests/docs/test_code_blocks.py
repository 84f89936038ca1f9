"""Code blocks of the documentation: they parse, load and run as a reader would use them."""

import ast
import importlib
import itertools
import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from ragmon.cli import main
from ragmon.cli.commands import COMMANDS
from ragmon.cli.flags import overrides
from ragmon.client.fake import FakeServer
from ragmon.config import load
from ragmon.mapping import RecordMapping
from tests.support.certificates import Authority
from tests.support.markdown import pages
from tests.support.modules import module
from tests.support.paths import ROOT
from tests.support.reference_pages import parser_of

DOCS = [page for page in pages() if not page.name.startswith(("tests/", "ragmon/"))]
FENCES = [(page, fence) for page in DOCS for fence in page.fences]
OTHERS = {"ts", "go", "java", "csharp", "ruby"}  # run by tests/web/test_languages.py
LANGUAGES = {"sh", "python", "yaml", "json", "text", "promql"} | OTHERS
PARSERS = {name: parser_of(name) for name in COMMANDS}
SECRETS = {
    "webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "apprise": "json://apprise.example",
}


def blocks(*languages: str) -> list[object]:
    return [
        pytest.param(page, fence, id=f"{page.name}:{fence.line}")
        for page, fence in FENCES
        if fence.language in languages
    ]


def test_every_block_names_its_language():
    unnamed = [f"{p.name}:{f.line}" for p, f in FENCES if f.language not in LANGUAGES]
    assert unnamed == []
    assert {fence.language for _, fence in FENCES} == LANGUAGES


# ---- python ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "fence"), blocks("python"))
def test_python_compiles_and_imports_what_exists(page, fence):
    tree = ast.parse(fence.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("ragmon"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


class Anything:
    """The application's own retriever and model."""

    def search(self, _question):
        return [{"id": "kb-17", "score": 0.83}]

    def generate(self, _docs):
        return "Use the link [1]."


@pytest.mark.parametrize("name", ["README.md", "deploy/docs/guides/send.md"])
def test_the_client_examples_log_queries(name):
    names = {
        "question": "How?",
        "answer": "So.",
        "docs": [("kb-17", 0.83)],
        "retriever": Anything(),
        "model": Anything(),
        "model_of": lambda _name: Anything(),
        "ask_application": Anything(),
    }
    (page,) = (page for page in DOCS if page.name == name)
    with FakeServer() as server:
        for fence in page.fences:
            if fence.language == "python":
                exec(fence.text.replace("http://127.0.0.1:8321", server.url), names)
        names["monitor"].close()
    assert server.records["queries"][0]["latency_ms"] == 812
    assert [record["rating"] for record in server.records["feedback"]] == [1.0]


# ---- yaml -----------------------------------------------------------------------------------


def prepared(text: str, folder: Path) -> str:
    """The block with its files under a folder, where the secrets it names really are."""
    for path in set(re.findall(r"/run/secrets/\w+", text)):
        local = folder / Path(path).name
        local.write_text(SECRETS.get(local.name, f"https://{local.name}.example"))
        text = text.replace(path, str(local))
    if "/etc/ragmon/tls/" in text:
        authority = Authority(folder / "authority")
        pair = authority.issue("tls")
        for name, path in (("crt", pair.cert), ("key", pair.key)):
            text = text.replace(f"/etc/ragmon/tls/tls.{name}", str(path))
        text = text.replace("/etc/ragmon/tls/ca.crt", str(authority.cert))
    return text


def check_settings(text, folder, monkeypatch):
    if "kind: apprise" in text:
        module("apprise")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "0" * 32)
    monkeypatch.setenv("RAG_TOKEN", "t")
    (folder / "golden.jsonl").write_text('{"query": "q", "relevant_doc_ids": ["a"]}\n')
    (folder / "tone.txt").write_text("Grade the tone of $answer.")
    (folder / "checks").mkdir(exist_ok=True)
    (folder / "checks" / "answers.py").write_text("def length(*case): return 1.0\n")
    (folder / "ragmon.yaml").write_text(prepared(text, folder))
    assert main(["check-config"]) == 0


def check_values(text, _folder, _monkeypatch):
    schema = json.loads((ROOT / "helm/ragmon/values.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(text), schema)


def check_scrape(text, _folder, _monkeypatch):
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["job_name"] == "ragmon"  # the shipped rules select it


def check_collector(text, _folder, _monkeypatch):
    (pipeline,) = yaml.safe_load(text)["service"]["pipelines"].values()
    assert set(pipeline["exporters"]) <= set(yaml.safe_load(text)["exporters"])


def check_backup(text, folder, _monkeypatch):
    """A Deployment whose words are a command that the parser takes."""
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    command, *words = container["args"]
    flags = {flag for action in PARSERS[command]._actions for flag in action.option_strings}
    assert {word for word in words if word.startswith("--")} <= flags


def check_map(text, _folder, _monkeypatch):
    assert RecordMapping(yaml.safe_load(text))


def checked_elsewhere(text, _folder, _monkeypatch):
    """`tests/cli/test_evaluate.py` loads these."""
    assert yaml.safe_load(text)


YAML = {
    "ragmon.yaml": check_settings,
    "values.yaml": check_values,
    "prometheus.yml": check_scrape,
    "otel-collector.yaml": check_collector,
    "backup.yaml": check_backup,
    "map.yaml": check_map,
    "ragmon evaluate golden.jsonl --request ask.yaml": checked_elsewhere,
    "ragmon gate now.json --baseline live --rules rules.yaml": checked_elsewhere,
}


@pytest.mark.parametrize(("page", "fence"), blocks("yaml"))
def test_yaml_names_its_file_and_loads(page, fence, tmp_path, monkeypatch):
    first = fence.text.splitlines()[0]
    assert first.removeprefix("# ") in YAML, f"begin with one of {[f'# {name}' for name in YAML]}"
    YAML[first.removeprefix("# ")](fence.text, tmp_path, monkeypatch)


@pytest.mark.parametrize("text", ["retention: {record: 3d}", "sinks: [{kind: slack, url: x}]"])
def test_a_setting_that_does_not_exist_is_seen(text, tmp_path, monkeypatch, capsys):
    with pytest.raises(AssertionError):
        check_settings(text, tmp_path, monkeypatch)
    assert "ragmon:" in capsys.readouterr().err


# ---- json -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "fence"), blocks("json"))
def test_json_parses(page, fence):
    assert json.loads(fence.text)


# ---- commands -------------------------------------------------------------------------------


def command_lines(text: str) -> list[list[str]]:
    """Simple commands of a shell script, as words."""
    commands: list[list[str]] = []
    open_line = ""
    for line in text.replace("\\\n", " ").splitlines():
        open_line += line + "\n"
        lexer = shlex.shlex(open_line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote goes on in the next line
            continue
        open_line = ""
        for separator, group in itertools.groupby(words, lambda word: set(word) <= set("|;&<>")):
            if not separator:
                commands.append(list(group))
    assert not open_line.strip()
    return commands


def ragmon_calls(text: str) -> list[list[str]]:
    """Arguments of each call of ragmon, also behind variables, `kubectl exec … --` and the like."""
    calls = []
    for words in command_lines(text):
        start = words.index("--") + 1 if words[0] in ("kubectl", "docker") and "--" in words else 0
        while start < len(words) and re.match(r"[A-Z_]+=", words[start]):
            start += 1
        if start < len(words) and words[start] == "ragmon":
            calls.append(words[start + 1 :])
    return calls


def check_call(words: list[str]) -> None:
    """Parse as ragmon does; its settings must exist.

    Raises:
        SystemExit: the parser refuses it.
        SettingsError: a setting does not exist.
    """
    name, *arguments = words
    assert name in PARSERS
    parser = PARSERS[name]
    _, rest = parser.parse_known_args(arguments)
    if rest and not parser.get_default("takes_settings"):
        parser.error(f"unrecognized arguments: {rest}")
    load(None, overrides(rest))


CALLS = [
    pytest.param(call, id=f"{page.name}:{fence.line} {' '.join(call)}")
    for page, fence in FENCES
    if fence.language == "sh"
    for call in ragmon_calls(fence.text)
]


@pytest.mark.parametrize("call", CALLS)
def test_a_command_line_is_one_that_ragmon_takes(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_call(call)


def test_calls_are_found_and_a_wrong_one_is_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(CALLS) > 25
    text = "A=1 ragmon report \\\n  --widow 1h | less\nkubectl exec x -- ragmon backup f # why"
    wrong, right = ragmon_calls(text)
    check_call(right)
    with pytest.raises(SystemExit):
        check_call(wrong)
    assert "--widow" in capsys.readouterr().err


INLINE = [
    pytest.param(code, id=f"{page.name} {code}")
    for page in DOCS
    for code in sorted(set(page.codes))
    if re.match(r"(?:[A-Z_]+=\S+ )*ragmon [a-z]", code) and not re.search(r"[…{]", code)
]


@pytest.mark.parametrize("code", INLINE)
def test_a_command_in_a_sentence_exists_with_its_flags(code):
    words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", code).split()
    assert words[1] in PARSERS
    flags = {flag for action in PARSERS[words[1]]._actions for flag in action.option_strings}
    used = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
    assert used <= flags


@pytest.mark.parametrize(("page", "fence"), blocks("sh"))
def test_make_targets_exist(page, fence):
    targets = set(re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    asked = [words[1] for words in command_lines(fence.text) if words[0] == "make"]
    assert set(asked) <= targets
