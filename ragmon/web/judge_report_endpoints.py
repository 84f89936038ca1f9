"""Paths of the judges' report card, as ``ragmon.web.endpoints`` has those of everything else."""

from typing import Annotated

from msgspec import Meta

from ragmon.judge_reports.report import JudgeReport
from ragmon.web.endpoint import HTML, PIPELINE, Endpoint, Parameter

DEFAULT_SINCE = "7d"
DEFAULT_LIMIT = 10

_TIMES = (
    Parameter(
        "since",
        "Start: Unix seconds, RFC 3339, or how long ago, such as `24h`.",
        str,
        DEFAULT_SINCE,
    ),
    Parameter("until", "End, exclusive; in the forms of `since`. Empty: now.", str, ""),
)
JUDGE_REPORT = Endpoint(
    name="judgeReport",
    method="GET",
    path="/v1/judges/report",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Judging",
    summary="How far each judge agrees with people, what it costs, and which to trust for what",
    help="Reads the labelled answers of that time, and those that two judges of faithfulness "
    "scored. Labels are taken as they come, not weighted by how they were chosen. Costs are those "
    "since this process began.",
    parameters=(
        PIPELINE,
        *_TIMES,
        Parameter(
            "limit",
            "Answers on which judges are at odds, at most.",
            Annotated[int, Meta(ge=1, le=1_000)],
            DEFAULT_LIMIT,
        ),
    ),
    answer=JudgeReport,
    problems=(400,),
)
JUDGE_REPORT_PAGE = Endpoint(
    name="judgeReportPage",
    method="GET",
    path="/judge/report",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="The judges' report card for a browser",
    parameters=(PIPELINE, *_TIMES),
    media=(HTML,),
    problems=(400,),
)

EVERY = (JUDGE_REPORT,)
"""Those of the API, in the order of the document."""
