"""Topics of stored queries: read here, found in a process of their own."""
