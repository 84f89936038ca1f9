"""Every section of pages, put together."""

from collections.abc import Sequence

from ragmon.web.alerts import AlertSource
from ragmon.web.api import RouteSection
from ragmon.web.comparison import ComparisonSource
from ragmon.web.documents import DocumentSource
from ragmon.web.judge_reports import JudgeReportSource
from ragmon.web.pages.actions import ActionSection
from ragmon.web.pages.assets import Assets, AssetSection
from ragmon.web.pages.changes import ChangeSource
from ragmon.web.pages.documents import DocumentPageSection
from ragmon.web.pages.incident import IncidentSection
from ragmon.web.pages.judge import JudgePageSection
from ragmon.web.pages.judge_report import JudgeReportPageSection
from ragmon.web.pages.judge_source import JudgePageSource
from ragmon.web.pages.label_source import LabelSource
from ragmon.web.pages.labels import LabelSection
from ragmon.web.pages.overview import OverviewSection
from ragmon.web.pages.pipeline import PipelineSection
from ragmon.web.pages.queries import QueryListSection
from ragmon.web.pages.query import QuerySection
from ragmon.web.pages.query_source import QueryPageSource
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.runbooks import RunbookSection
from ragmon.web.pages.search import SearchSection
from ragmon.web.pages.service import ServiceSection
from ragmon.web.pages.service_source import ServiceSource
from ragmon.web.pages.sources import CourseSource, PageSource
from ragmon.web.pages.topics import TopicPages
from ragmon.web.pages.traces import TracePages
from ragmon.web.pages.versions import VersionsSection
from ragmon.web.topics import TopicSection, TopicSource
from ragmon.web.traces import TraceSource


def page_sections(
    source: PageSource,
    courses: CourseSource,
    alerts: AlertSource,
    baselines: ChangeSource,
    queries: QueryPageSource,
    *,
    comparisons: ComparisonSource,
    labels: LabelSource,
    judges: JudgePageSource,
    service: ServiceSource,
    documents: DocumentSource,
    judge_reports: JudgeReportSource,
    topics: TopicSource,
    traces: TraceSource,
) -> Sequence[RouteSection]:
    """Sections of all pages, of what they load, and of topics over the API."""
    assets = Assets()
    renderer = Renderer(assets)
    return (
        OverviewSection(source, alerts, baselines, renderer),
        PipelineSection(source, courses, alerts, baselines, renderer),
        IncidentSection(courses, alerts, renderer),
        ActionSection(alerts),
        LabelSection(labels, queries, renderer),
        SearchSection(source, alerts, queries, renderer),
        QueryListSection(queries, renderer),
        QuerySection(queries, renderer),
        VersionsSection(source, comparisons, renderer),
        JudgePageSection(judges, renderer),
        JudgeReportPageSection(judge_reports, renderer),
        ServiceSection(service, renderer),
        DocumentPageSection(documents, renderer),
        RunbookSection(renderer),
        TopicPages(topics, renderer),
        TopicSection(topics),
        TracePages(traces, renderer),
        AssetSection(assets),
    )
