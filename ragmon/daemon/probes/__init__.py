"""Golden probes: golden sets put to the live service on a schedule."""
