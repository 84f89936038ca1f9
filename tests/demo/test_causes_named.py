"""The demo's bad release, whose index lost sections: topics and documents say so."""

from msgspec.structs import replace

from ragmon.alerts.example_texts import missing_text, topics_text
from ragmon.clock import ManualClock
from ragmon.daemon.alerting.driving_topics import DrivingTopicSearch
from ragmon.daemon.alerting.missing_documents import MissingDocumentSearch
from ragmon.demo.application import FAST, build_application
from ragmon.demo.history import PIPELINE, history, plan_for
from ragmon.detectors import AlertKey, StreamKey
from ragmon.pipeline import Pipeline
from ragmon.signals import SignalOptions
from ragmon.signals.catalogue import build as build_catalogue
from tests.daemon.alerting.test_worst_queries import alert
from tests.support.rig import Rig, sent

NOW = 1_750_000_000.0


def test_the_bad_release_names_topics_and_documents(tmp_path):
    application = build_application(ManualClock())
    plan = plan_for(application, now=NOW, seed=1)
    pipeline = Pipeline(build_catalogue(SignalOptions()), ("tenant", "channel", "kind"))
    rig = Rig(tmp_path, pipeline)
    for batch in history(application, plan, queries=12_000):
        rig.commit(sent(*batch.queries, *batch.feedback))
    began, template = plan.incidents.rollout.start, alert("hit")
    key = AlertKey("anomaly", StreamKey(PIPELINE, "hit", "version", FAST))
    of = replace(
        template, key=key, fired_at=NOW, bad_at=NOW, began_at=began,
        finding=replace(template.finding, alert=key, changed_at=began),
    )  # fmt: skip
    clock, reader = ManualClock(NOW), rig.store.reader
    topics = DrivingTopicSearch(reader, pipeline, "keep", clock).find(of, lambda: True).topics
    gone = MissingDocumentSearch(reader, pipeline, clock).find(of, lambda: True).missing
    rig.store.close()
    lost = {chunk.id for chunk in application.chunks[len(application.chunks) // 2 :]}
    assert "of the misses ask about" in topics_text(topics, "hit")
    assert any({"string", "list"} & set(topic.words) for topic in topics)
    assert gone is not None
    assert "are never retrieved, although other versions retrieve them" in missing_text(gone)
    assert set(gone.ids) <= lost
