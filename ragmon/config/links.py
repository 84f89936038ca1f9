"""Settings of links from the pages to other tools."""

from typing import Annotated

from pydantic import AfterValidator, Field

from ragmon.config.sections import SettingsSection

TRACE_ID = "{trace_id}"


def _with_trace_id(template: str) -> str:
    if template and TRACE_ID not in template:
        raise ValueError(f"does not hold {TRACE_ID}, where the id of the trace is put")
    return template


class LinkSettings(SettingsSection):
    """Links from the pages to other tools."""

    trace: Annotated[str, Field(pattern="^(https?://.+)?$"), AfterValidator(_with_trace_id)] = ""
    """URL of one trace in the tracing tool, with `{trace_id}` where its id goes, for example
    https://phoenix.example/redirects/traces/{trace_id}; empty: no link."""
