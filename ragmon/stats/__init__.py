"""Statistics without I/O or clock: intervals, judged scores, agreement, latency histograms."""
