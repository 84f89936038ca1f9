"""Metrics of the sampled judge, through prometheus_client."""

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

from ragmon.exposition.own import OwnMetrics

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)


class JudgeMetrics:
    """Counters of judges by name."""

    def __init__(self, own: OwnMetrics) -> None:
        registry = own.registry
        self.judged = own.judged
        self._tokens = Counter(
            "ragmon_judge_tokens",
            "Tokens sent to and received from language models that judge.",
            ["judge", "kind"],
            registry=registry,
        )
        self._cost = Counter(
            "ragmon_judge_cost_dollars",
            "US dollars spent on judging, from the prices in judge.llm.prices.",
            ["judge"],
            registry=registry,
        )
        self._failures = Counter(
            "ragmon_judge_failures",
            "Failed attempts to judge an answer, by reason, including those retried.",
            ["judge", "reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "ragmon_judge_duration_seconds",
            "Time to judge one answer, including retries.",
            ["judge"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._queue = Gauge(
            "ragmon_judge_queue_length",
            "Answers waiting for a judge.",
            ["judge"],
            registry=registry,
        )
        self._registry = registry

    def watch_queue(self, judge: str, length: Callable[[], float]) -> None:
        """Ask for the length of a judge's queue at each scrape."""
        self._queue.labels(judge).set_function(length)

    def watch(self, name: str, text: str, judge: str, value: Callable[[], float]) -> None:
        """A gauge of one judge that is asked for its value at each scrape."""
        gauge = Gauge(name, text, ["judge"], registry=self._registry)
        gauge.labels(judge).set_function(value)

    def add_usage(self, judge: str, prompt: int, completion: int, dollars: float | None) -> None:
        """Count the tokens and cost of one attempt; None dollars: the model has no price."""
        self._tokens.labels(judge, "prompt").inc(prompt)
        self._tokens.labels(judge, "completion").inc(completion)
        if dollars is not None:
            self._cost.labels(judge).inc(dollars)

    def observe_seconds(self, judge: str, seconds: float) -> None:
        """Observe the duration of one attempt."""
        self._seconds.labels(judge).observe(seconds)

    def failed(self, judge: str, reason: str) -> None:
        """One attempt failed."""
        self._failures.labels(judge, reason).inc()
