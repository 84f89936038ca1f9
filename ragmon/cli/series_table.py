"""The series and streams that settings come to for the traffic in the store."""

from typing import Any

from rich import box
from rich.table import Table

from ragmon.cli.console import say
from ragmon.cli.rich_output import standard_output
from ragmon.config import Settings
from ragmon.daemon.build import open_reader
from ragmon.daemon.series_forecast import SeriesForecast, forecast
from ragmon.errors import SettingsError, StoreError
from ragmon.loops import instant

_REMEDY = (
    "They stay in reports, alerts and the page. Raise metrics.max_series, or show less: see"
    " metrics.exclude, metrics.slice_metrics, metrics.slice_windows and metrics.intervals."
)
_STREAMS_REMEDY = (
    "No alert can fire on the others. Raise detectors.max_streams (14 to 45 kB of memory each), or"
    " name fewer tags in slices."
)


def count(settings: Settings) -> SeriesForecast | str:
    """Count them, beside a running daemon too; or the reason why that is not possible."""
    try:
        with open_reader(settings) as reader:
            counted = forecast(reader, settings)
    except SettingsError as error:
        return str(error.args[0])
    except StoreError as error:
        return str(error)
    return counted if counted.pipelines else "the store has no queries yet."


def show(settings: Settings) -> None:
    """Print them as a table; where the store cannot be read, why."""
    counted = count(settings)
    if isinstance(counted, str):
        say(f"No series are counted: {counted}")
        return
    say(
        "Series of /metrics for the traffic in the store:"
        f" {counted.pipelines:,} pipelines, {counted.slices:,} slices, as of"
        f" {instant(counted.newest)}"
    )
    standard_output(markup=False).print(_table(counted))
    say(_verdict(counted))
    say(_streams_verdict(counted))


def as_json(settings: Settings) -> dict[str, Any]:
    """The same for programs: ``series`` and ``streams``, or ``not_counted`` with the reason."""
    counted = count(settings)
    if isinstance(counted, str):
        return {"series": None, "streams": None, "not_counted": counted}
    return {
        "series": {
            "total": counted.series,
            "shown": counted.shown,
            "limit": counted.limit,
            "as_of": counted.newest,
            "pipelines": counted.pipelines,
            "slices": counted.slices,
            "metrics": [
                {"metric": family.metric, "series": family.series, "shown": family.shown}
                for family in counted.families
            ],
        },
        "streams": {"total": counted.streams, "limit": counted.max_streams},
        "not_counted": None,
    }


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


def _streams_verdict(counted: SeriesForecast) -> str:
    need = f"Detectors have {counted.streams:,} streams to watch: metrics of pipelines and slices."
    most = f"detectors.max_streams, {counted.max_streams:,}"
    if counted.streams <= counted.max_streams:
        return f"{need} All fit into {most}."
    return f"{need} {counted.streams - counted.max_streams:,} do not fit into {most}. " + (
        _STREAMS_REMEDY
    )
