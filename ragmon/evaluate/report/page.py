"""One HTML file that needs nothing else: no script, no font, no network."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np

from ragmon.charts import axes
from ragmon.charts.bars import Bar, bars, histogram
from ragmon.charts.line import NARROW, Curve, Mark, line_chart
from ragmon.charts.style import CHART_STYLE
from ragmon.durations import minute_text
from ragmon.evaluate.document import Curves, Evaluation, Stratum, Summary
from ragmon.evaluate.report.cases import worst_cases
from ragmon.evaluate.report.style import STYLE
from ragmon.evaluate.report.text import agreement, grouped, headlines, interval
from ragmon.evaluate.score.metric_text import limit_text, value_text
from ragmon.evaluate.score.metrics import GUIDES, Guide, base_of
from ragmon.evaluate.score.scoring import Scored
from ragmon.evaluate.score.strata import SMALL

_SCORES = axes.numbers(0.0, 1.0, "score", most=4)
_BINS = 10


def html(evaluation: Evaluation, scored: Scored | None = None) -> str:
    """The report of one evaluation.

    Args:
        evaluation: the evaluation.
        scored: the cases with their chunks, for the list of worst cases; None leaves it out.
    """
    sections = [
        _headline(evaluation),
        _notes(evaluation.notes),
        _curves(evaluation.curves) if evaluation.curves else "",
        _strata(evaluation),
        _distributions(evaluation),
        worst_cases(scored) if scored is not None else "",
        _metrics(evaluation),
        _judges(evaluation),
        _absent(evaluation.absent),
    ]
    when = minute_text(evaluation.created_at)
    name = escape(evaluation.name)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{name}: RAG evaluation</title><style>{CHART_STYLE}{STYLE}</style></head><body>
<header><h1>{name}</h1><p class="dim">{len(evaluation.cases):,} cases · {when} ·
ragmon {escape(evaluation.ragmon)}</p></header>
{"".join(sections)}
</body></html>
"""


def _headline(evaluation: Evaluation) -> str:
    cards = "".join(
        f'<div class="card"><b>{value_text(metric.name, metric.mean)}</b> {_chip(metric.band)}'
        f'<div>{_breakable(metric.name)}</div><div class="dim">{interval(metric)}</div></div>'
        for metric in headlines(evaluation)
    )
    return f'<section class="cards">{cards}</section>'


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}" for note in notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _judges(evaluation: Evaluation) -> str:
    """Judges with their failures and cost, and their agreement with human labels."""
    items = [
        f"<li>{escape(str(usage))}"
        + (f'<div class="dim">first error: {escape(usage.example)}</div>' if usage.example else "")
        + "</li>"
        for usage in evaluation.judges
        if usage.judged or usage.failed
    ]
    items += [f"<li>{escape(agreement(judge))}</li>" for judge in evaluation.agreement]
    if not items:
        return ""
    return f'<section><h2>Judges</h2><ul class="notes">{"".join(items)}</ul></section>'


def _absent(absent: Mapping[str, str]) -> str:
    items = "".join(
        f"<li><b>{_breakable(name)}</b> {escape(reason)}" for name, reason in absent.items()
    )
    title = "<summary><h2>Not measured</h2></summary>"
    return f'<details open>{title}<ul class="notes">{items}</ul></details>' if items else ""


def _curves(curves: Curves) -> str:
    ks = [float(k) for k in curves.ks]
    enough, marks = "", []
    if curves.enough_k is not None:
        marks = [Mark(float(curves.enough_k), f"k = {curves.enough_k}")]
        enough = (
            f"<p>After <b>k = {curves.enough_k}</b> (dashed) recall gains less than 5 % of its "
            "highest value.</p>"
        )
    by_k = line_chart(
        [Curve(name, ks, values) for name, values in curves.at_k.items()],
        title="Mean of each metric at k",
        x_axis=axes.fixed(_ticks(curves.ks), "k, results looked at"),
        y_axis=_SCORES,
        marks=marks,
        size=NARROW,
    )
    by_recall = line_chart(
        [Curve("precision", curves.recall_levels, curves.precision)],
        title="Interpolated precision at each level of recall",
        x_axis=axes.fixed((0.0, 0.25, 0.5, 0.75, 1.0), "recall"),
        y_axis=_SCORES,
        size=NARROW,
    )
    return (
        f'<section class="pair"><div><h2>Metrics at k</h2>{by_k}{enough}</div>'
        f"<div><h2>Precision and recall</h2>{by_recall}"
        "<p>Highest precision at or beyond each recall, mean over cases.</p></div></section>"
    )


def _ticks(ks: Sequence[int]) -> Sequence[float]:
    if len(ks) <= 10:
        return [float(k) for k in ks]
    step = -(-len(ks) // 6)
    return [float(k) for k in sorted({ks[0], *range(step, ks[-1], step), ks[-1]})]


def _strata(evaluation: Evaluation) -> str:
    if not evaluation.strata:
        return ""
    shown = [metrics[-1] for metrics in grouped(_drawable(evaluation)).values()][:2]
    keys = dict.fromkeys(stratum.key for stratum in evaluation.strata)
    blocks = [
        f"<div><h3>{_breakable(metric.name)} by {escape(key)}</h3>{chart}</div>"
        for key in keys
        for metric in shown
        if (chart := _bars(evaluation.strata, key, metric))
    ]
    few = any(stratum.small for stratum in evaluation.strata)
    note = (
        f'<p class="dim">* fewer than {SMALL} cases: too few for a conclusion.</p>' if few else ""
    )
    return f'<section><h2>By stratum</h2><div class="pair">{"".join(blocks)}</div>{note}</section>'


def _drawable(evaluation: Evaluation) -> list[Summary]:
    """Headline metrics in [0, 1], the one to draw last in its group."""
    order = ("reciprocal_rank", "recall", "hit", "average_precision", "ndcg", "faithfulness")
    chosen = [metric for metric in headlines(evaluation) if metric.kind != "quantity"]
    places = {base: place for place, base in enumerate(order)}
    return sorted(chosen, key=lambda metric: places.get(base_of(metric.name), -1))


def _bars(strata: Sequence[Stratum], key: str, metric: Summary) -> str:
    rows = [
        Bar(
            f"{stratum.value} ({mean.samples}{'*' if stratum.small else ''})",
            mean.mean,
            mean.lower,
            mean.upper,
        )
        for stratum in strata
        if stratum.key == key and (mean := stratum.metrics.get(metric.name)) is not None
    ]
    title = f"{metric.name} by {key}"
    return bars(rows, title=title, unit="score") if len(rows) > 1 else ""


def _distributions(evaluation: Evaluation) -> str:
    def drawn() -> Iterator[str]:
        for metric in headlines(evaluation):
            column = evaluation.matrix([metric.name])[:, 0]
            known = column[~np.isnan(column)]
            if metric.kind == "fraction" and len(known):
                counts = np.histogram(known, _BINS, (0.0, 1.0))[0].tolist()
                title = f"Distribution of {metric.name}"
                chart = histogram(counts, title=title, ends=("0", "1"))
                yield f"<div><h3>{_breakable(metric.name)}</h3>{chart}</div>"

    figures = "".join(drawn())
    title = "<h2>Distribution of scores</h2>"
    return f'<section>{title}<div class="small">{figures}</div></section>' if figures else ""


def _metrics(evaluation: Evaluation) -> str:
    parts = "".join(
        f"<details{' open' if group != 'Behaviour' else ''}><summary><h2>{group}</h2></summary>"
        f"{''.join(_family(base, family) for base, family in _families(metrics).items())}</details>"
        for group, metrics in grouped(evaluation.metrics).items()
    )
    return f"<section>{parts}</section>"


def _families(metrics: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Metrics grouped by name without k and judge."""
    families: dict[str, list[Summary]] = {}
    for metric in metrics:
        families.setdefault(base_of(metric.name), []).append(metric)
    return families


def _family(base: str, metrics: Sequence[Summary]) -> str:
    guide = GUIDES.get(base, Guide(""))
    rows = "".join(_row(metric) for metric in metrics)
    improvable = any(metric.band in ("fair", "poor") for metric in metrics)
    advice = (
        f'<p class="advice">Try: {escape(guide.advice)}</p>' if improvable and guide.advice else ""
    )
    bands = ""
    if guide.good is not None and guide.fair is not None:
        sign = "≤" if guide.better == "lower" else "≥"
        good, fair = (limit_text(base, edge) for edge in (guide.good, guide.fair))
        bands = f" Good {sign} {good}, fair {sign} {fair}."
    meaning = f'<p class="dim">{escape(guide.meaning[:1].upper() + guide.meaning[1:])}.{bands}</p>'
    return f'<div class="family">{rows}{meaning if guide.meaning else ""}{advice}</div>'


def _row(metric: Summary) -> str:
    track, value = "", value_text(metric.name, metric.mean)
    if metric.kind != "quantity" and metric.lower is not None and metric.upper is not None:
        left, width = 100 * metric.lower, 100 * (metric.upper - metric.lower)
        track = (
            f'<div class="range"><i style="left:{left:.1f}%;width:{width:.1f}%"></i>'
            f'<u style="left:{100 * metric.mean:.1f}%"></u></div>'
        )
    return (
        f'<div class="metric"><div class="name"><b>{_breakable(metric.name)}</b> '
        f'{_chip(metric.band)}</div><div class="value"><b>{value}</b> '
        f'<span class="dim">{interval(metric)} · {metric.samples:,}</span></div>{track}</div>'
    )


def _breakable(name: str) -> str:
    """A name that a narrow screen may break after an underscore or a slash."""
    return escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


def _chip(band: str) -> str:
    return f'<span class="chip {band}">{band}</span>' if band else ""
