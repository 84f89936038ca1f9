"""Alerting in the daemon: the detection loop, the alert API and the worst queries."""
