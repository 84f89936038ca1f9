"""The commands by name, and how one is loaded: only the one that runs is imported."""

import importlib
import keyword
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "backtest": "show which alerts past queries would have raised",
        "backup": "copy the store into a file, a directory or S3, even while the daemon runs",
        "baseline": "set, list, show, promote or delete saved baselines",
        "check-config": "check the configuration and explain every setting",
        "compare": "compare two evaluations side by side",
        "completion": "print the completion for bash, zsh or fish",
        "copy-store": "copy a store that is at rest into PostgreSQL, or back into a directory",
        "dashboards": "write the Grafana dashboards for these settings",
        "demo": "run ragmon on a small RAG application with two incidents",
        "doctor": "look at everything that ragmon needs, and say what is wrong and how to mend it",
        "documents": "show documents behind bad answers, and those that came, went or are in vain",
        "evaluate": "score recorded answers, or a live service, over a golden set",
        "export": "write stored queries to a file: JSON lines, CSV, Parquet or a golden set",
        "forget": "erase what is stored of one user or session, with a receipt",
        "gate": "pass or fail a release against a baseline",
        "import": "send records from files of any form, mapped by expressions; or show them first",
        "incident": "acknowledge an incident, or take that back",
        "incidents": "show incidents: alerts that share a cause",
        "judge": "have past answers judged by the language model, or report on all judges",
        "migrate": "bring the store to the format of this ragmon, or say whether that is needed",
        "notify-test": "send a test alert through a sink",
        "quarantine": (
            "list, show, retry or delete what could not be decoded, mapped, judged or sent"
        ),
        "queries": "list stored queries of a running daemon, as GET /v1/queries",
        "replay": "send logged queries from files",
        "report": "print the metrics and open alerts of a running daemon",
        "restore": "put a backup in the place of the store",
        "rules": "print the Prometheus rules for these settings",
        "serve": "run the monitoring daemon",
        "shards": "list partitions of a topic with their owners, or read one on from elsewhere",
        "silence": "add, list or delete silences of alerts",
        "token": "create a bearer token, or list those of a daemon",
        "topics": "show what people ask, grouped, the worst served first",
        "trace-doctor": "show how OpenTelemetry traces are mapped to queries, and missing fields",
        "verify": "check a store for damage",
        "version": "print the versions of ragmon, Python and SQLite",
    }
)
"""Lines of help by name; the module of ``check-config`` is ``check_config``."""


def command(name: str) -> ModuleType:
    """The module of a command: ``arguments(parser)``, ``run(args) -> int``, and its docstring."""
    module = name.replace("-", "_") + ("_" if keyword.iskeyword(name) else "")
    return importlib.import_module(f"ragmon.cli.{module}")
