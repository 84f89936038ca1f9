"""Names of pipelines that the daemon does not have: an empty answer would hide a misspelling."""

from http import HTTPStatus

from ragmon.api_schema import Report
from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.errors import RemoteError, SettingsError
from ragmon.metric_series import QUERIES, MetricSeries
from ragmon.plugins import nearest


def check_pipeline(session: Connection, url: str, name: str) -> None:
    """Refuse a pipeline of which the daemon keeps no windows; to be asked when nothing fits.

    Args:
        session: see ``remote.session``.
        url: of the daemon.
        name: of the pipeline; empty: any, which is always right.

    Raises:
        SettingsError: there is no such pipeline, or the token may not read it.
        RemoteError: the daemon did not answer.
    """
    if not name:
        return
    try:
        remote.get(session, url, "/v1/series", MetricSeries, metric=QUERIES, pipeline=name)
    except RemoteError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        report = remote.get(session, url, "/v1/report", Report)
        names = [pipeline.pipeline for pipeline in report.pipelines]
        raise unknown_pipeline(f"there is no pipeline {name!r}", name, names) from None


def unknown_pipeline(message: str, name: str, names: list[str]) -> SettingsError:
    """The error that there is no such pipeline, with the nearest name, or all.

    Args:
        message: what is missing.
        name: that was asked for.
        names: that there are.
    """
    near = nearest(name, names)
    if near:
        return SettingsError(message, hint=f"Did you mean {near}?")
    listed = (
        f"Of these there are: {', '.join(names)}" if names else "There are none of any pipeline"
    )
    return SettingsError(message, hint=listed)
