"""Packaged golden set: questions over the Python reference, answered by the demo application.

Needs the extra `demo`, which has the retriever.
"""

from ragmon.clock import Clock
from ragmon.demo.application import STABLE, Application, build_application
from ragmon.demo.questions import Question, known, load
from ragmon.evaluate.cases import Case, CaseSet, Run, id_of
from ragmon.evaluate.errors import DataError
from ragmon.records import QueryRecord


def answered(clock: Clock, version: str = "") -> tuple[CaseSet, Run]:
    """The golden set with the answers of one release of the demo application.

    Raises:
        SettingsError: the extra `demo` is not installed.
        DataError: there is no such release.
    """
    application = build_application(clock)
    version = version or STABLE
    if version not in application.versions:
        known = ", ".join(application.versions)
        raise DataError(f"the demo has no release {version!r}", hint=f"Use one of {known}")
    cases = _cases(application)
    return CaseSet(cases), {case.case_id: _ask(application, case, version, clock) for case in cases}


def _cases(application: Application) -> tuple[Case, ...]:
    questions = load()
    by_query = {question.query: question for question in questions}
    return tuple(
        _case(by_query[question.query], question.relevant)
        for question in known(questions, application.chunks)
    )


def _case(question: Question, relevant: frozenset[str] | None) -> Case:
    return Case(
        query=question.query,
        case_id=id_of(question.query),
        relevant_doc_ids=sorted(relevant) if relevant else None,
        nuggets=[section.phrase for section in question.sections] or None,
        metadata={"kind": question.kind, "difficulty": question.difficulty},
    )


def _ask(application: Application, case: Case, version: str, clock: Clock) -> QueryRecord:
    outcome = application.ask(case.query, version=version)
    return QueryRecord(
        query_id=case.case_id,
        timestamp=clock.now(),
        version=version,
        model=outcome.model,
        query=case.query,
        answer=outcome.answer,
        chunks=outcome.chunks,
        citations=outcome.citations,
        latency_ms=outcome.latency_ms,
        error=outcome.error,
    )
