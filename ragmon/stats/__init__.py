"""Statistics without I/O or clock: intervals and the latency histogram."""
