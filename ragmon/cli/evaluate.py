"""Score a run over a golden set: a table, and JSON, HTML or JUnit files.

Exit status 1: a --min or --max limit was missed.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ragmon.cli import llm_options, window_flags
from ragmon.cli.console import warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.progress import piece_bar
from ragmon.cli.rich_output import standard_output
from ragmon.clock import Clock, SystemClock
from ragmon.config.units import seconds
from ragmon.evaluate import loaders
from ragmon.evaluate.cases import CaseSet, Labelled, Run, by_case
from ragmon.evaluate.compare.gate import limits
from ragmon.evaluate.compare.rules import GateRule, rules_of
from ragmon.evaluate.document import Evaluation, describe, save
from ragmon.evaluate.errors import NAME_A_RUN, DataError
from ragmon.evaluate.report import junit, table
from ragmon.evaluate.report.page import html
from ragmon.evaluate.score.embedding import load as load_embedder
from ragmon.evaluate.score.graders import AnswerGrader, GroundingGrader, HumanGrader
from ragmon.evaluate.score.scoring import Scored, ScoringOptions, score

BASELINES = Path("ragmon-baselines")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("cases", type=Path, nargs="?", help="cases: JSONL, JSON, CSV, TREC qrels or BEIR folder")
    source = parser.add_argument_group("source of the answers (default: the file of the cases)")
    add_source = source.add_mutually_exclusive_group().add_argument
    add_source("--run", dest="answers", type=Path, metavar="FILE", help="recorded answers")
    add_source("--endpoint", metavar="URL", help="send the questions to this service")
    add_source(
        "--from-store",
        type=Path,
        metavar="DIR",
        help="labelled queries from the store in this data_dir",
    )
    add_source("--demo", action="store_true", help="the packaged golden set and demo application")
    source.add_argument("--request", type=Path, metavar="FILE", help="YAML: request to the service")
    source.add_argument("--concurrency", type=int, default=4, help="parallel requests (default 4)")
    source.add_argument(
        "--attempts", type=int, default=3, help="attempts for each question (default 3)"
    )
    source.add_argument(
        "--save-run", type=Path, metavar="FILE", help="write the answers as a run file"
    )
    source.add_argument("--split", default="", help="split of a BEIR folder (default test)")
    window_flags.since_argument(source, "7d", "the oldest query, for --from-store")
    window_flags.pipeline_argument(source, "only this pipeline, for --from-store")
    source.add_argument("--demo-version", default="", help="release of the demo application")
    how = parser.add_argument_group("scoring")
    how.add_argument("--k", default="1,3,5,10", help="cut-off ranks, separated by commas")
    text = "gain of a grade in NDCG: the grade itself (linear, the default) or 2^grade - 1"
    gains = ("linear", "exponential")
    how.add_argument("--gain", choices=gains, default="linear", help=text)
    how.add_argument(
        "--by",
        action="append",
        metavar="KEY",
        help="metadata key to report by (default: every key with few values)",
    )
    how.add_argument("--no-judge", action="store_true", help="use no judge at all")
    text = "noise sensitivity: have the LLM judge again with N irrelevant chunks mixed in"
    how.add_argument("--distractors", type=int, default=0, metavar="N", help=text)
    how.add_argument(
        "--embedder", default="", help="sentence-transformers:MODEL or module:function"
    )
    llm_options.arguments(parser)
    _outputs(parser)


def _outputs(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("output")
    what.add_argument(
        "--name", default="", help="name of this evaluation (default: that of the run)"
    )
    what.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the evaluation for `ragmon gate` and `compare`",
    )
    what.add_argument("--html", type=Path, metavar="FILE", help="write a report page with plots")
    what.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the --min and --max checks as JUnit XML"
    )
    what.add_argument(
        "--save-baseline", metavar="NAME", help="save for `ragmon gate --baseline NAME`"
    )
    what.add_argument("--baselines", type=Path, default=BASELINES, help="folder of baselines")
    what.add_argument("--quiet", action="store_true", help="print no table and no progress")
    for side in ("min", "max"):
        text = f"fail if the mean is {'below' if side == 'min' else 'above'} this; may be repeated"
        metavar = "METRIC[:KEY=VALUE]=NUMBER"
        what.add_argument(f"--{side}", action="append", default=[], metavar=metavar, help=text)


def run(args: argparse.Namespace) -> int:
    """Score, write the requested files, return the exit status."""
    clock = SystemClock()
    options = ScoringOptions(ks=_cutoffs(args.k), gain=args.gain)
    rules = rules_of([], args.min, args.max)  # a typo fails before any question is sent
    case_set, answers, faithful = _source(args, clock)
    answers = loaders.with_texts(answers, case_set.corpus)
    if args.save_run is not None:
        loaders.write_run(args.save_run, answers)
    with ExitStack() as stack:
        judges = _judges(args, case_set, answers, clock, stack)
        if faithful:
            judges.append(HumanGrader(faithful))
        scored = score(case_set, answers, options, judges, llm_options.progress(args, "judging"))
    evaluation = describe(scored, _name(args), clock.now(), args.by)
    _write(args, evaluation, scored)
    return _limited(args, evaluation, rules)


def _judges(
    args: argparse.Namespace, case_set: CaseSet, answers: Run, clock: Clock, stack: ExitStack
) -> list[AnswerGrader]:
    """Judges of the answers."""
    judges: list[AnswerGrader] = [] if args.no_judge else [GroundingGrader()]
    if args.embedder:
        judges.append(load_embedder(args.embedder))
    configured = None if args.no_judge else llm_options.options(args)
    if configured is not None:
        from ragmon.evaluate.score.llm import LlmGrader, LlmGraderOptions, pool_of  # noqa: PLC0415 - only here

        cache = stack.enter_context(llm_options.replies(args.replies))
        options = LlmGraderOptions(
            options=configured,
            max_cost_usd=llm_options.limit(args),
            distractors=args.distractors,
            pool=pool_of(answers),
        )
        model = LlmGrader(options, clock, cache)
        stack.callback(model.close)
        by_id = by_case(case_set.cases, answers)
        known = [(each, by_id[each.case_id]) for each in case_set.cases if each.case_id in by_id]
        expected = model.forecast(known)
        llm_options.announce(f"{expected.answers:,} answers", expected, args)
        judges.append(model)
    return judges


def _write(args: argparse.Namespace, evaluation: Evaluation, scored: Scored) -> None:
    if not args.quiet:
        table.show(standard_output(), evaluation)
    if args.json is not None:
        save(evaluation, args.json)
    if args.save_baseline:
        saved = msgspec.structs.replace(evaluation, name=args.save_baseline)
        save(saved, args.baselines / f"{args.save_baseline}.json")
    if args.html is not None:
        write(args.html, html(evaluation, scored).encode())


def _limited(args: argparse.Namespace, evaluation: Evaluation, rules: Sequence[GateRule]) -> int:
    """The exit status by --min and --max."""
    checks = limits(evaluation, rules)
    if args.junit is not None:
        write(args.junit, junit.limits(evaluation.name, checks))
    missed = [check for check in checks if check.verdict != "pass"]
    for check in missed:
        where = f" [{check.stratum}]" if check.stratum else ""
        warn(f"{check.metric}{where}: {check.reason}")
    return ExitCode.FINDING if missed else ExitCode.OK


def write(path: Path, content: bytes) -> None:
    """Write a file, and the folder it stands in.

    Raises:
        DataError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", path=path) from error


def _source(args: argparse.Namespace, clock: Clock) -> Labelled:
    """Cases, their answers, and human labels of the answers by case id."""
    _check_source(args)
    if args.demo:
        from ragmon.cli import golden  # noqa: PLC0415 - needs the demo's extra

        return Labelled(*golden.answered(clock, args.demo_version))
    if args.from_store is not None:
        return _stored(args, clock.now())
    if args.cases is None:
        raise DataError("no cases", hint="Pass a file, --demo or --from-store")
    case_set = loaders.read_cases(args.cases, split=args.split)
    if args.endpoint or args.request:
        return Labelled(case_set, _asked(args, case_set, clock))
    if args.answers is None and loaders.holds_no_answers(args.cases):
        raise DataError("holds no answers", path=args.cases, hint=NAME_A_RUN)
    return Labelled(case_set, loaders.read_run(args.answers or args.cases))


def _check_source(args: argparse.Namespace) -> None:
    """Refuse arguments that would be ignored."""
    if args.cases is not None and (args.demo or args.from_store is not None):
        hint = "--demo and --from-store have cases of their own"
        raise DataError("would be ignored", path=args.cases, hint=hint)
    if args.request is not None and (args.demo or args.from_store or args.answers):
        raise DataError("needs a live service: use --endpoint", field="--request")


def _stored(args: argparse.Namespace, now: float) -> Labelled:
    from ragmon.evaluate.run.from_store import labelled  # noqa: PLC0415 - only here
    from ragmon.stores.sqlite.reader import SqliteReader  # noqa: PLC0415
    from ragmon.stores.sqlite.store import FILE  # noqa: PLC0415

    since = now - _seconds(args.since)
    path = args.from_store / FILE
    if not path.is_file():
        raise DataError("does not exist", path=path, hint="Pass the data_dir of a daemon")
    with SqliteReader(path) as reader:
        return labelled(reader, since, now, args.pipeline)


def _asked(args: argparse.Namespace, case_set: CaseSet, clock: Clock) -> Run:
    from msgspec.structs import replace  # noqa: PLC0415

    from ragmon.evaluate.run.endpoint import RequestPolicy, Template, drive, read_template  # noqa: PLC0415

    template = Template(url=args.endpoint) if not args.request else read_template(args.request)
    if args.endpoint:
        template = replace(template, url=args.endpoint)
    for name in ("concurrency", "attempts"):
        if getattr(args, name) < 1:
            raise DataError("must be at least 1", field=f"--{name}")
    pace = RequestPolicy(concurrency=args.concurrency, attempts=args.attempts)
    with piece_bar(quiet=args.quiet) as progress:
        task = progress.add_task("asking", total=len(case_set.cases))
        return drive(case_set.cases, template, pace, clock, lambda: progress.advance(task))


def _seconds(text: str) -> float:
    try:
        return float(seconds(text))
    except ValueError as error:
        raise DataError(str(error), field="--since") from error


def _cutoffs(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError as error:
        raise DataError(f"{text!r} is not a list of numbers", field="--k") from error
    if not ks or ks[0] < 1:
        raise DataError("ranks start at 1", field="--k")
    return ks


def _name(args: argparse.Namespace) -> str:
    if args.name:
        return str(args.name)
    if args.demo:
        return f"demo {args.demo_version}".strip()
    source = args.answers or args.endpoint or args.from_store or args.cases
    return source.stem if isinstance(source, Path) else str(source)
