"""A shop whose new version finds nothing: a day of traffic, and an incident that it opens."""

from tests.support.http import Site
from tests.support.wait import eventually

FLAGS = {"slices": "tenant", "detectors__first_days": 0, "detectors__lag": "0s"}
"""Settings under which the incident opens at once."""

QUESTIONS = (
    ("How do I return a blender?", "You may return a blender within 30 days. Keep the receipt."),
    ("When does my parcel come?", "Parcels come within three days. Express takes one day."),
    ("Where is my invoice?", "The invoice is in your account. It is sent by mail as well."),
    ("Can I pay by card?", "You can pay by card. Cash is not taken."),
)
_CALM_S, _BROKEN_S = 36 * 3_600.0, 5_400.0
_CALM, _BROKEN = 3_600, 540


def records(now: float) -> list[dict]:
    """The day up to ``now`` (unix seconds): for the last hour and a half, v2 takes half of it."""
    calm = [
        _query(number, now - _BROKEN_S - _CALM_S * (1.0 - number / _CALM), "v1")
        for number in range(_CALM)
    ]
    mixed = [
        _query(number, now - _BROKEN_S * (1.0 - number / _BROKEN), f"v{1 + number % 2}")
        for number in range(_BROKEN)
    ]
    return calm + mixed


def _query(number: int, at: float, version: str) -> dict:
    question, answer = QUESTIONS[number // 2 % len(QUESTIONS)]
    is_broken = version == "v2"
    chunks = [] if is_broken else [{"id": "faq", "score": 0.9, "text": answer, "source": "faq.md"}]
    return {
        "query_id": f"{version}-{number}-{at:.0f}",
        "timestamp": at,
        "pipeline": "shop",
        "version": version,
        "query": question,
        "answer": "I do not know." if is_broken else answer,
        "chunks": chunks,
        "relevant_ids": ["faq"],
        "latency_ms": {"total": 400 + number % 90, "retrieval": 60, "generation": 300},
        "tags": {"tenant": ("acme", "globex", "initech")[number % 3]},
        "session_id": f"session-{number}",  # the same question of one session is one vote a minute
        "feedback": "negative" if is_broken and number % 4 == 1 else None,
    }


def fill(site: Site, now: float) -> str:
    """Send the day, and wait for the incident; returns its id."""
    # All at once: between two batches detection may reach the clock, and what follows came late.
    assert site.post("/v1/queries", records(now)).status == 200

    def judged() -> bool:
        until = site.get("/v1/alerts?limit=1").json["judged_until"]
        return (until or 0.0) >= now // 60 * 60

    def incident() -> str | None:
        open_ones = site.get("/v1/incidents?state=open&pipeline=shop").json["incidents"]
        return open_ones[0]["id"] if open_ones else None

    eventually(judged, "every minute is judged", 90)  # until then incidents may still be joined
    return eventually(incident, "an incident is open", 30)
