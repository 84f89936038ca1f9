#!/bin/sh
# Builds an OpenTelemetry Collector for tests/end_to_end/test_collector.py into .venv/tools as
# otelcol: some minutes of two cores with Go, once.
set -eu
version=v0.150.0
tools=$PWD/.venv/tools
[ -x "$tools/otelcol" ] && exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp tests/support/collector.go "$folder/main.go"
cd "$folder"
printf 'module otelcol\ngo 1.25.0\n' >go.mod
collector=go.opentelemetry.io/collector
go get "$collector/otelcol@$version" "$collector/receiver/otlpreceiver@$version" \
    "$collector/exporter/otlphttpexporter@$version" "$collector/confmap/provider/fileprovider"
mkdir -p "$tools"
nice go build -mod=mod -trimpath -ldflags "-s -w" -o "$tools/otelcol" .
