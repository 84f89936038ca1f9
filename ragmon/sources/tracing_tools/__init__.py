"""Reading of tracing tools by their APIs: windows of time, pages, positions, requests."""
