"""The API and the pages besides metrics, report and queries, from the parts of the daemon."""

from collections.abc import Sequence

from msgspec import Struct

from ragmon.daemon import http
from ragmon.daemon.access import AccessControl
from ragmon.daemon.alerting.api import AlertApi
from ragmon.daemon.baselines import LiveBaselines
from ragmon.daemon.comparing import LiveComparisons
from ragmon.daemon.component import Context
from ragmon.daemon.documents import LiveDocuments
from ragmon.daemon.erasure.requests import ErasureRequests
from ragmon.daemon.judging.build import Judges
from ragmon.daemon.judging.judge_pages import LiveJudgePages
from ragmon.daemon.judging.judge_reports import LiveJudgeReports
from ragmon.daemon.label_queue import LabelQueue
from ragmon.daemon.metric_series import LiveSeries
from ragmon.daemon.monitor import LiveMonitor
from ragmon.daemon.notify.delivery import Delivery
from ragmon.daemon.page_data import LivePages
from ragmon.daemon.quarantine import QuarantineApi
from ragmon.daemon.query_pages import QueryPages
from ragmon.daemon.query_reads import QueryReads
from ragmon.daemon.service_page import LiveService, ServiceParts
from ragmon.daemon.topics.analyses import TopicAnalyses
from ragmon.loops import Supervisor
from ragmon.sources import Source
from ragmon.web.alerts import AlertSection
from ragmon.web.api import RouteSection
from ragmon.web.audit import AuditSection
from ragmon.web.baselines import BaselineSection
from ragmon.web.comparison import ComparisonSection
from ragmon.web.documents import DocumentSection
from ragmon.web.erasure import ErasureSection
from ragmon.web.judge_reports import JudgeReportSection
from ragmon.web.judge_runs import JudgeSection
from ragmon.web.pages.sections import page_sections
from ragmon.web.quarantine import QuarantineSection
from ragmon.web.series import SeriesSection
from ragmon.web.tokens import TokenSection
from ragmon.web.traces import TraceSource


class SectionParts(Struct, frozen=True, kw_only=True):
    """Everything that answers requests of the API and the pages."""

    access: AccessControl
    monitor: LiveMonitor
    supervisor: Supervisor
    sources: Sequence[Source]
    delivery: Delivery
    alerts: AlertApi
    baselines: LiveBaselines
    judges: Judges
    erasures: ErasureRequests
    quarantine: QuarantineApi
    documents: LiveDocuments
    judge_reports: LiveJudgeReports
    topics: TopicAnalyses
    traces: TraceSource


def build_sections(context: Context, parts: SectionParts) -> list[RouteSection]:
    """The sections, those of the pages first."""
    limits = http.limits_of(context)
    timeout_s = context.settings.limits.query_timeout
    series = LiveSeries(context.engine, context.clock, timeout_s, parts.alerts.expected)
    reads = QueryReads(context.engine, context.settings, context.clock)
    comparisons = LiveComparisons(context.engine, series, reads, context.clock)
    return [
        *_pages(context, parts, series, comparisons),
        SeriesSection(series),
        ComparisonSection(comparisons),
        DocumentSection(parts.documents),
        AlertSection(parts.alerts, limits),
        BaselineSection(parts.baselines, limits),
        JudgeReportSection(parts.judge_reports),
        JudgeSection(parts.judges.on_demand, context.clock.now, limits),
        TokenSection(parts.access.tokens.listed),
        ErasureSection(parts.erasures),
        AuditSection(parts.access.audit.entries, context.clock.now),
        QuarantineSection(parts.quarantine),
    ]


def _pages(
    context: Context, parts: SectionParts, series: LiveSeries, comparisons: LiveComparisons
) -> Sequence[RouteSection]:
    """The pages for people."""
    settings, clock, monitor = context.settings, context.clock, parts.monitor
    timeout_s = settings.limits.query_timeout
    return page_sections(
        LivePages(context.engine, clock, parts.access.audit, monitor, timeout_s),
        series,
        parts.alerts,
        parts.baselines,
        QueryPages(monitor, settings, clock),
        comparisons=comparisons,
        labels=LabelQueue(context, monitor, parts.judges.calibrations),
        judges=LiveJudgePages(monitor, parts.judges),
        service=_service(context, parts),
        documents=parts.documents,
        judge_reports=parts.judge_reports,
        topics=parts.topics,
        traces=parts.traces,
    )


def _service(context: Context, parts: SectionParts) -> LiveService:
    return LiveService(
        context,
        ServiceParts(
            monitor=parts.monitor,
            supervisor=parts.supervisor,
            sources=parts.sources,
            delivery=parts.delivery,
            alerts=parts.alerts,
            quarantine=parts.quarantine,
        ),
    )
