"""Completion for shells: the scripts, run by the shells themselves."""

import subprocess

import pytest

from ragmon.cli import main
from ragmon.cli.commands import COMMANDS
from ragmon.cli.completion import SHELLS, completed_parser
from tests.support.tools import program

COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_ragmon
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(capsys, tmp_path):
    def written(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"ragmon.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return written


def lines(*words, cwd=None):
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=cwd)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_commands_options_settings_values_and_files(script, tmp_path):
    path = script("bash")
    (tmp_path / "golden.jsonl").touch()

    def completed(*words):
        return lines("bash", "-c", COMPLETE, "-", str(path), "ragmon", *words, cwd=tmp_path)

    assert completed("rep") == ["replay", "report"]
    assert completed("report", "--js") == ["--json"]
    assert completed("report", "--window", "1h", "--js") == ["--json"]
    assert completed("serve", "--retention.re") == ["--retention.records"]
    assert completed("serve", "--data") == ["--data-dir"]
    assert completed("silence", "") == ["add", "list", "delete"]
    assert completed("incidents", "--state", "") == ["open", "resolved", "all"]
    assert completed("evaluate", "gol") == ["golden.jsonl"]


def test_fish_completes_the_same(script, tmp_path):
    fish = program("fish")
    asked = f'source {script("fish")}; complete -C "ragmon rep"; complete -C "ragmon report --js"'
    words = [line.partition("\t")[0] for line in lines(fish, "-c", asked, cwd=tmp_path)]
    assert words == ["replay", "report", "--json"]


def test_zsh_can_read_its_script(script):
    path = script("zsh")
    assert lines(program("zsh"), "-n", str(path)) == []
    text = path.read_text()
    assert text.startswith("#compdef ragmon\n")
    assert all(f"{name}:'" in text for name in COMMANDS)


def test_no_option_is_there_twice():
    (commands,) = completed_parser()._subparsers._group_actions
    for name, parser in commands.choices.items():
        flags = [flag for action in parser._actions for flag in action.option_strings]
        assert len(flags) == len(set(flags)), name


def test_a_shell_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["completion", "csh"])
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert all(shell in err for shell in SHELLS)
