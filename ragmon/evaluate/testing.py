"""Release gate as an assertion, for test suites."""

from pathlib import Path

from ragmon.evaluate.compare.gate import Decision, decide
from ragmon.evaluate.compare.rules import GateRule, Policy
from ragmon.evaluate.document import Evaluation, load


def assert_no_regression(
    current: Evaluation | Path | str,
    baseline: Evaluation | Path | str,
    *,
    max_drop: dict[str, float] | None = None,
    min_value: dict[str, float] | None = None,
    alpha: float = 0.05,
    min_effect: float = 0.01,
) -> Decision:
    """Fail the test when the gate fails.

    Args:
        current: an evaluation, or the JSON file of one.
        baseline: the same, of what is live.
        max_drop: by metric, what it may get worse by; without any rule the headline metrics may
            not get worse.
        min_value: by metric, what its mean must reach.
        alpha: chance of failing although nothing got worse.
        min_effect: smaller falls never fail.

    Raises:
        AssertionError: naming every rule that failed.
        DataError: the two cannot be compared.
    """
    rules = [
        *(GateRule(metric=name, max_drop=value) for name, value in (max_drop or {}).items()),
        *(GateRule(metric=name, min_value=value) for name, value in (min_value or {}).items()),
    ]
    policy = Policy(rules=tuple(rules), alpha=alpha, min_effect=min_effect)
    decision = decide(_read(baseline), _read(current), policy)
    failed = [
        f"{check.metric}{f' [{check.stratum}]' if check.stratum else ''}: {check.reason}"
        for check in decision.checks
        if check.verdict == "fail"
    ]
    if failed:
        raise AssertionError("\n".join([f"worse than {decision.baseline}:", *failed]))
    return decision


def _read(source: Evaluation | Path | str) -> Evaluation:
    return source if isinstance(source, Evaluation) else load(Path(source))
