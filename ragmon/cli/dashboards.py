"""Write the Grafana dashboards for these settings into a folder.

A panel whose metrics the settings of `metrics` switch off becomes a note that names the setting;
single lines and columns are left out. A variable whose values no metric tells takes them from the
settings. Import the files, or make a ConfigMap of them: kubectl create configmap --from-file=DIR.
"""

import argparse
import json
from pathlib import Path

import ragmon
from ragmon.cli import flags
from ragmon.cli.console import say, say_json
from ragmon.cli.fitted_dashboard import FittedDashboard
from ragmon.cli.results import WrittenDashboard, WrittenDashboards
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.metric_choice import left_out
from ragmon.errors import SettingsError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = f"{parser.prog} --to DIR [--json] [--config FILE] [--SETTING VALUE ...]"
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="folder; made where it is missing"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Write them, and say what was left out."""
    settings = flags.settings(args).settings
    off = left_out(settings, build_pipeline(settings).catalogue.columns)
    boards = {
        name: FittedDashboard(json.loads(text), off, settings) for name, text in sources().items()
    }
    try:
        args.to.mkdir(parents=True, exist_ok=True)
        for name, board in boards.items():
            text = json.dumps(board.json, indent=2) + "\n"
            (args.to / f"{name}.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"--to: cannot write into {args.to}: {error.strerror}", hint="Name another folder"
        ) from error
    written = [
        WrittenDashboard(file=f"{args.to / name}.json", changes=board.changes)
        for name, board in boards.items()
    ]
    if args.json:
        say_json(WrittenDashboards(dashboards=written))
        return 0
    for dashboard in written:
        say(dashboard.file)
        for change in dashboard.changes:
            say(f"  {change}")
    return 0


def sources() -> dict[str, str]:
    """The text of each shipped dashboard by its name, as installed or as in a checkout."""
    package = Path(ragmon.__file__).parent
    installed, checkout = package / "dashboards", package.parent / "grafana/dashboards"
    folder = installed if installed.is_dir() else checkout
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
