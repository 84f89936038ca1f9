"""The gate's verdict as a comment on a pull request."""

from ragmon.evaluate.compare.gate import Check, Decision
from ragmon.evaluate.report.text import between
from ragmon.evaluate.score.metric_text import change_text, value_text

_MARKS = {"fail": "❌", "inconclusive": "⚠️", "pass": "✅"}


def summary(decision: Decision) -> str:
    """Verdict and table; passing rules folded away."""
    failed = [check for check in decision.checks if check.verdict == "fail"]
    open_ = [check for check in decision.checks if check.verdict == "inconclusive"]
    passed = [check for check in decision.checks if check.verdict == "pass"]
    verdict = "❌ RAG quality gate failed" if failed else "✅ RAG quality gate passed"
    counts = (
        f"`{_plain(decision.current)}` against `{_plain(decision.baseline)}`, "
        f"{decision.cases:,} shared cases: {len(failed)} failed, {len(open_)} not proven, "
        f"{len(passed)} passed."
    )
    lines = [f"### {verdict}", "", counts, ""]
    if failed or open_:
        lines += [*_table([*failed, *open_]), ""]
    if passed:
        title = f"<details><summary>{len(passed)} passed</summary>"
        lines += [title, "", *_table(passed), "", "</details>", ""]
    lines += [f"- {_plain(note)}" for note in decision.notes]
    return "\n".join(lines).rstrip() + "\n"


def _table(checks: list[Check]) -> list[str]:
    head = ["| | metric | baseline | now | change (95 %) | why |", "|---|---|--:|--:|--:|---|"]
    return head + [_row(check) for check in checks]


def _row(check: Check) -> str:
    where = f"`{_plain(check.metric)}`" + (f" {_plain(check.stratum)}" if check.stratum else "")
    change = change_text(check.metric, check.change)
    if check.lower is not None:
        change += f" ({between(check.metric, check.lower, check.upper)})"
    means = (value_text(check.metric, mean) for mean in (check.baseline, check.current))
    cells = (*means, change, _plain(check.reason))
    return f"| {_MARKS[check.verdict]} | {where} | " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Nothing that would break a table or its code spans."""
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ").replace("<", "&lt;")
