"""Dashboard of the judges: verdicts, coverage, cost, and agreement with people."""

from grafana.board import Board, Row
from grafana.metrics import (
    FAITHFULNESS,
    OWN,
    READ,
    UNFAITHFUL,
    increase,
    quantile,
    rate,
    ratio,
    selector,
    share,
)
from grafana.panels import Query, chart, stack, stat

_JUDGED = "ragmon_judged_total"
_JUDGES, _PEOPLE = 'judge!="human"', 'judge="human"'
_COST = "ragmon_judge_cost_dollars_total"


def _with_ends(metric: str) -> tuple[Query, ...]:
    """A figure of each judge with both ends of its interval."""
    ends = (("", ""), ("_lower", " lower"), ("_upper", " upper"))
    return tuple(
        Query(selector(f"{metric}{suffix}"), f"{{{{pipeline}}}} {{{{judge}}}}{name}")
        for suffix, name in ends
    )


_NOW = Row(
    "Now",
    (
        stat(
            "Faithfulness",
            "Share of an answer that its chunks support, over all judges.",
            "percentunit",
            Query(FAITHFULNESS.over("$window", "", _JUDGES), "faithfulness"),
            (0.7, "orange"),
            (0.85, "green"),
            below="red",
        ),
        stat(
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            "percentunit",
            Query(UNFAITHFUL.over("$window"), "unfaithful"),
            (0.05, "orange"),
            (0.2, "red"),
        ),
        stat(
            "Read",
            "Share of the answers that the embedded judge read.",
            "percentunit",
            Query(READ.over("$window"), "read"),
            (0.5, "orange"),
            (0.9, "green"),
            below="red",
        ),
        stat(
            "Waiting",
            "Answers that wait for a judge.",
            "short",
            Query(f"sum(ragmon_judge_queue_length{{{OWN}}})", "waiting"),
            (1_000, "orange"),
            (10_000, "red"),
        ),
        stat(
            "Budget left",
            "Share of the judge's budget that is left, for the limit that is nearest.",
            "percentunit",
            Query(f"min(ragmon_judge_budget_remaining_ratio{{{OWN}}})", "left"),
            (0.05, "orange"),
            (0.2, "green"),
            below="red",
        ),
        stat(
            "Cost in a day",
            "Cost of the sampled judge in the last 24 hours; coloured from 10 and 100 dollars.",
            "currencyUSD",
            Query(f"sum(increase({_COST}{{{OWN}}}[1d]))", "cost"),
            (10, "orange"),
            (100, "red"),
        ),
    ),
)

_VERDICTS = Row(
    "Verdicts",
    (
        share(
            "Faithfulness",
            "Share of an answer that its chunks support, by judge.",
            FAITHFULNESS,
            legend="pipeline, judge",
        ),
        ratio(
            "Grounding",
            "Share of an answer that its chunks support, by the embedded judge.",
            "ragmon_grounding_ratio",
        ),
        share(
            "Unfaithful answers",
            "Share of the judged answers below judge.unfaithful_below.",
            UNFAITHFUL,
        ),
        chart(
            "Judged answers in the window",
            "Answers that the verdicts of each judge speak for, over the window.",
            "short",
            Query(
                increase("ragmon_judged_answers_total", "pipeline, judge", over="$window"),
                "{{pipeline}} {{judge}}",
            ),
            min=0,
        ),
    ),
)

_AGREEMENT = Row(
    "Against people",
    (
        ratio(
            "Faithfulness with its interval",
            "Share of an answer that its chunks support: by the language model, the same as"
            " people would see it (llm_corrected), and by people.",
            "ragmon_faithfulness_ratio",
            'judge!="grounding"',
            legend="{{pipeline}} {{judge}}",
        ),
        chart(
            "Distance from human labels",
            "Faithfulness by a judge minus faithfulness by human labels, over the window.",
            "percentunit",
            Query(
                f"{FAITHFULNESS.over('$window', 'pipeline, judge', _JUDGES)}"
                " - on (pipeline) group_left () "
                f"{FAITHFULNESS.over('$window', 'pipeline', _PEOPLE)}",
                "{{pipeline}} {{judge}}",
            ),
        ),
        chart(
            "Balanced accuracy",
            "Mean share of the good and of the bad answers, as people label them, that a judge"
            " recognises; 0.5 is chance. Dotted: 95 % interval.",
            "percentunit",
            *_with_ends("ragmon_judge_agreement_balanced_accuracy"),
            min=0,
            max=1,
        ),
        chart(
            "Cohen's kappa",
            "Agreement of a judge and the human labels beyond chance. Dotted: 95 % interval.",
            "short",
            *_with_ends("ragmon_judge_agreement_kappa"),
        ),
        chart(
            "Human labels in the window",
            "Answers that people labelled, by /v1/labels.",
            "short",
            Query(
                increase("ragmon_judged_answers_total", "pipeline", _PEOPLE, over="$window"),
                "{{pipeline}}",
            ),
            min=0,
        ),
    ),
    folded=True,
)

_WORK = Row(
    "Work and cost",
    (
        stack(
            "Judged",
            "Answers by judge and outcome, per second: scored, or the reason why not.",
            "reqps",
            Query(rate(_JUDGED, "judge, outcome", of=OWN), "{{judge}} {{outcome}}"),
        ),
        share(
            "Read by the embedded judge",
            "Share of the answers that it read; the rest exceeded judge.grounding.max_cpu.",
            READ,
        ),
        chart(
            "Waiting",
            "Answers that wait for a judge.",
            "short",
            Query(f"sum by (judge) (ragmon_judge_queue_length{{{OWN}}})", "{{judge}}"),
            min=0,
        ),
        chart(
            "Failures",
            "Failed attempts to judge by reason, including those that are retried.",
            "reqps",
            Query(
                rate("ragmon_judge_failures_total", "judge, reason", of=OWN), "{{judge}} {{reason}}"
            ),
            min=0,
        ),
        chart(
            "Time to judge",
            "95 % of the answers were judged within this time, retries included.",
            "s",
            Query(quantile(0.95, "ragmon_judge_duration_seconds", "judge", of=OWN), "{{judge}}"),
            min=0,
        ),
        chart(
            "Tokens",
            "Tokens of the sampled judge by kind, within each step of the chart.",
            "short",
            Query(
                increase("ragmon_judge_tokens_total", "judge, kind", of=OWN), "{{judge}} {{kind}}"
            ),
            min=0,
        ),
        chart(
            "Cost",
            "Cost of the sampled judge an hour, at the present rate.",
            "currencyUSD",
            Query(f"3600 * {rate(_COST, 'judge', of=OWN)}", "{{judge}}"),
            min=0,
        ),
        chart(
            "Budget left",
            "Share of the budget that is left, for the limit that is nearest.",
            "percentunit",
            Query(f"min by (job) (ragmon_judge_budget_remaining_ratio{{{OWN}}})", "{{job}}"),
            min=0,
            max=1,
        ),
    ),
)

BOARD = Board(
    "judge",
    "the judge",
    "Verdicts of the judges with intervals, coverage, cost, and agreement with human labels.",
    (_NOW, _VERDICTS, _WORK, _AGREEMENT),
)
