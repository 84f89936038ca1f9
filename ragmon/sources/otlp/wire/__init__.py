"""OTLP wire formats: protobuf and JSON, decoded into spans."""
