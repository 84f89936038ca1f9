"""The OTLP receiver: routes, journal, assembly of traces and the mapping thread."""
