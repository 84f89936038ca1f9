"""Metrics whose values live elsewhere: in the page, and as prometheus_client reads them."""

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ragmon.exposition import page
from ragmon.exposition.negotiation import choose_format
from ragmon.exposition.own import OwnMetrics


def test_the_page_and_the_registry_say_the_same():
    own, by_place = OwnMetrics(), {("eu", "x"): 3, ("us", ""): 1.5}
    own.watch("a_gauge", "One.", lambda: 2)
    own.watch_each("a_gauge_each", "Some.", "place", lambda: {"eu": 1, "us": 2.5})
    own.watch_total("a_counter", "One.", lambda: 4)
    own.watch_labelled("a_counter_each_total", "Some.", ("place", "kind"), lambda: by_place)
    text = page(own.families(), choose_format("")).decode()
    theirs = generate_latest(own.registry).decode()
    assert samples(text) == samples(theirs)
    assert 'a_counter_each_total{kind="x",place="eu"} 3' in text.splitlines()
    by_place["us", ""] = 7
    assert own.total("a_counter_each_total", place="us", kind="") == 7
    assert "a_counter_total 4" in page(own.families(), choose_format("")).decode().splitlines()


def samples(text: str) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
    """Samples of a page by name and labels; labels without a value are left out."""
    return {
        (
            sample.name,
            tuple(sorted(pair for pair in sample.labels.items() if pair[1])),
            sample.value,
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
