"""Notification: from the outbox to the sinks, at least once and in order."""
