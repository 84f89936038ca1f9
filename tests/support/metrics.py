"""Reading a ``/metrics`` page."""

from collections.abc import Iterator

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain
from prometheus_client.samples import Sample


def samples(page: str) -> Iterator[Sample]:
    """Every sample of a page, of either format."""
    parse = openmetrics if page.endswith("# EOF\n") else plain
    for family in parse(page):
        yield from family.samples


def values(page: str, name: str, **labels: str) -> list[float]:
    """Values of the samples of that name which carry at least these labels."""
    return [
        sample.value
        for sample in samples(page)
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def total(page: str, name: str, **labels: str) -> float:
    """Their sum; 0 without any."""
    return sum(values(page, name, **labels))
