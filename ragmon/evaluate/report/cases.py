"""Worst cases of the HTML page, with their answers and retrieved chunks."""

from collections.abc import Collection, Sequence
from html import escape

import numpy as np

from ragmon.evaluate.cases import Case
from ragmon.evaluate.score.metric_text import value_text
from ragmon.evaluate.score.metrics import is_headline
from ragmon.evaluate.score.scoring import Scored
from ragmon.records import Chunk, QueryRecord

_MOST_CASES = 12
_MOST_CHUNKS = 10
_MOST_CHARACTERS = 600
_MOST_CHUNK_CHARACTERS = 320


def worst(scored: Scored, most: int = _MOST_CASES) -> list[int]:
    """Rows with the lowest mean of the headline metrics in [0, 1], the worst first.

    A case at its best in all of them is not listed.
    """
    chosen = [
        at
        for at, metric in enumerate(scored.metrics)
        if is_headline(metric.name) and metric.kind != "quantity"
    ]
    if not chosen:
        return []
    scores = scored.values[:, chosen].copy()
    for place, at in enumerate(chosen):
        if scored.metrics[at].better == "lower":
            scores[:, place] = 1.0 - scores[:, place]
    known = ~np.isnan(scores)
    means = np.where(known, scores, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    means[~known.any(axis=1)] = 1.0
    order = np.argsort(means, kind="stable")[:most]
    return [int(row) for row in order if means[row] < 1.0]


def worst_cases(scored: Scored) -> str:
    """A section of the page; empty when every case has the best scores."""
    rows = worst(scored)
    if not rows:
        return ""
    items = "".join(_case(scored, row, opened=row == rows[0]) for row in rows)
    return f"<section><h2>Worst cases</h2>{items}</section>"


def _case(scored: Scored, row: int, *, opened: bool) -> str:
    case, record = scored.cases[row], scored.records[row]
    scores = " ".join(
        f"<span>{escape(metric.name)} <b>{value_text(metric.name, float(value))}</b></span>"
        for metric, value in zip(scored.metrics, scored.values[row], strict=True)
        if is_headline(metric.name) and not np.isnan(value)
    )
    return (
        f"<details class='case'{' open' if opened else ''}><summary>{escape(case.query)}</summary>"
        f'<p class="scores">{scores}</p>{_texts(case, record)}{_chunks(case, record)}</details>'
    )


def _texts(case: Case, record: QueryRecord) -> str:
    parts = []
    if record.error is not None:
        parts.append(f'<p><b class="poor">Failed</b> {escape(record.error[:_MOST_CHARACTERS])}</p>')
    if record.answer is not None:
        parts.append(f"<p><b>Answer</b> {escape(_short(record.answer))}</p>")
    if case.ground_truth_answer is not None:
        parts.append(f"<p><b>Reference answer</b> {escape(_short(case.ground_truth_answer))}</p>")
    relevant = [key for key, grade in case.judgements.items() if grade > 0]
    retrieved = {chunk.id for chunk in record.chunks or ()}
    lost = [key for key in relevant if key not in retrieved]
    if lost:
        names = ", ".join(f"<code>{escape(key)}</code>" for key in lost[:_MOST_CHUNKS])
        parts.append(f"<p><b>Relevant, not retrieved</b> {names}</p>")
    return "".join(parts)


def _chunks(case: Case, record: QueryRecord) -> str:
    if record.chunks is None:
        return "<p class='dim'>The retrieved chunks were not recorded.</p>"
    if not record.chunks:
        return "<p>Nothing was retrieved.</p>"
    cited = set(record.citations or ())
    items = "".join(_chunk(chunk, case, cited) for chunk in record.chunks[:_MOST_CHUNKS])
    return f"<ol>{items}</ol>"


def _chunk(chunk: Chunk, case: Case, cited: Collection[str]) -> str:
    grade = case.judgements.get(chunk.id)
    marks: Sequence[str] = [
        *(['<span class="chip good">relevant</span>'] if grade is not None and grade > 0 else []),
        *(['<span class="chip">cited</span>'] if chunk.id in cited else []),
    ]
    text = (
        f"<div class='chunk'>{escape(_short(chunk.text, _MOST_CHUNK_CHARACTERS))}</div>"
        if chunk.text
        else ""
    )
    return f"<li><code>{escape(chunk.id)}</code> {' '.join(marks)}{text}</li>"


def _short(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
