"""Every benchmark of this folder: printed as tables, and kept in README.md beside this file.

    python tests/benchmarks/run.py [NAME ...] [--write]     for example: run.py ingest scale

Without names all of them run, and are written down; sections that did not run stay as they are.

Figures are whole-process CPU; what can be compared between machines are the ratios to a floor
measured in the same run.
"""

import importlib
import platform
import subprocess
import sys
import time
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run them; returns 0, since a noisy machine must not fail a build."""
    console = Console(width=120)
    sections = {}
    for path in sorted(HERE.glob("bench_*.py")):
        name = path.stem.removeprefix("bench_")
        if set(names) - {"--write"} and name not in names:
            continue
        module = importlib.import_module(path.stem)
        if not hasattr(module, "run"):  # prints tables of its own
            printed, report = _printed(path), getattr(module, "REPORT", None)
            sections[name] = f"See [{report.name}]({report.name})." if report else printed
            continue
        rows = module.run()
        title = (module.__doc__ or name).splitlines()[0]
        table = Table(title=f"{name}: {title}", title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("what", "measured", "goal"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(str, row))
        console.print(table)
        sections[name.replace("_", " ")] = _markdown(title, rows)
    if not names or "--write" in names:
        page = HERE / "README.md"
        page.write_text(_page(_held(page.read_text(encoding="utf-8")) | sections), encoding="utf-8")
    return 0


def _printed(path: Path) -> str:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    print(done.stdout)
    return f"{_measured()}\n\n```\n{done.stdout.rstrip()}\n```"


def _markdown(title: str, rows: list[tuple[str, ...]]) -> str:
    lines = [title, "", _measured(), "", "| what | measured | goal |", "| --- | --- | --- |"]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)


def _measured() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
    )
    commit = found.stdout.strip() or "no commit"
    return f"*{time.strftime('%Y-%m-%d')}, at {commit}, Python {platform.python_version()}.*"


def _held(page: str) -> dict[str, str]:
    """The sections of a page by name."""
    parts = (part.split("\n", 1) for part in page.split("\n## ")[1:])
    return {name: text.strip() for name, text in parts}


def _page(sections: dict[str, str]) -> str:
    head = (
        f"# Benchmarks\n\nWritten by `make bench` on {platform.machine()}, two shared cores."
        " Microseconds are CPU of the whole process; compare the ratios, not the seconds.\n\n"
    )
    ordered = (f"## {name}\n\n{sections[name]}\n" for name in sorted(sections))
    return head + "\n".join(ordered)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
