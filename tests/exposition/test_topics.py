"""Metrics of watched topics."""

from prometheus_client import CollectorRegistry, generate_latest

from ragmon.exposition.topics import TopicMetrics, TopicSample, WatchedTopics


def series(watched) -> list[str]:
    registry = CollectorRegistry()
    registry.register(TopicMetrics(lambda: watched))
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_there_are_never_more_than_twenty_series():
    topics = [TopicSample(f"id{at}", f"words {at}", 0.01 * at, 1.5 + at) for at in range(60)]
    lines = series(WatchedTopics(1_000.0, topics))
    assert len(lines) == 20
    assert 'ragmon_topic_queries_ratio{topic="id59",words="words 59"} 0.59' in lines
    assert 'ragmon_topic_growth_ratio{topic="id59",words="words 59"} 60.5' in lines


def test_a_topic_that_does_not_grow_has_a_share_alone():
    lines = series(WatchedTopics(5.0, [TopicSample("a", "refund deadline", 0.25, None)]))
    assert lines == [
        'ragmon_topic_queries_ratio{topic="a",words="refund deadline"} 0.25',
        "ragmon_topics_timestamp_seconds 5.0",
    ]


def test_nothing_is_exported_before_the_first_analysis():
    assert series(None) == []
