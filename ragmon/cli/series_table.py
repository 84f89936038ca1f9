"""The series that settings come to for the traffic in the store, as a table."""

from rich import box
from rich.table import Table

from ragmon.cli.console import say
from ragmon.config import Settings
from ragmon.daemon.series_forecast import SeriesForecast, forecast
from ragmon.errors import StoreError
from ragmon.evaluate.report.table import standard_output
from ragmon.loops import instant
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE

_REMEDY = (
    "They stay in reports, alerts and the page. Raise metrics.max_series, or show less: see"
    " metrics.exclude, metrics.slice_metrics, metrics.slice_windows and metrics.intervals."
)


def show(settings: Settings) -> None:
    """Print it; where the store cannot be read, why."""
    path = settings.data_dir / FILE
    if not path.is_file():
        say(f"No series are counted: there is no store in {settings.data_dir} yet.")
        return
    try:
        with SqliteReader(path) as reader:
            counted = forecast(reader, settings)
    except StoreError as error:
        say(f"No series are counted: {error}")
        return
    if not counted.pipelines:
        say(f"No series are counted: {path} has no queries yet.")
        return
    say(
        f"Series of /metrics for the traffic in {path}: {counted.pipelines:,} pipelines,"
        f" {counted.slices:,} slices, as of {instant(counted.newest)}"
    )
    standard_output(markup=False).print(_table(counted))
    say(_verdict(counted))


def _table(counted: SeriesForecast) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=True)
    table.add_column("metric, with its interval and samples", "total", overflow="fold")
    for name in ("series", "shown", "withheld"):
        total = sum(getattr(family, name) for family in counted.families)
        table.add_column(name, f"{total:,}", justify="right", no_wrap=True)
    for family in counted.families:
        numbers = (family.series, family.shown, family.withheld)
        table.add_row(family.metric, *(f"{number:,}" for number in numbers))
    return table


def _verdict(counted: SeriesForecast) -> str:
    withheld = counted.series - counted.shown
    if not withheld:
        return f"All fit into metrics.max_series, {counted.limit:,}."
    return f"{withheld:,} series do not fit into metrics.max_series, {counted.limit:,}. {_REMEDY}"
