#!/bin/sh
# Builds a current Prometheus for tests/end_to_end/test_scrape_formats.py into .venv/tools as
# prometheus3, without its pages: half an hour of two cores with Go, once.
set -eu
version=v0.305.0 # 3.5
tools=$PWD/.venv/tools
[ -x "$tools/prometheus3" ] && exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'module prometheus3\ngo 1.24.0\n' >go.mod
go get "github.com/prometheus/prometheus/cmd/prometheus@$version"
mkdir -p "$tools"
nice go build -mod=mod -ldflags "-s -w" -o "$tools/prometheus3" \
    github.com/prometheus/prometheus/cmd/prometheus
