#!/bin/sh
# Builds a current Prometheus for tests/end_to_end/test_scrape_formats.py into .venv/tools as
# prometheus3, without its pages and service discovery: some ten minutes of a core with Go, once.
set -eu
version=v0.305.0 # 3.5
tools=$PWD/.venv/tools
[ -x "$tools/prometheus3" ] && exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'module prometheus3\ngo 1.24.0\n' >go.mod
module=$(go mod download -json "github.com/prometheus/prometheus@$version")
cp -r "$(printf '%s' "$module" | sed -n 's/^.*"Dir": "\(.*\)",$/\1/p')" prometheus
chmod -R u+w prometheus
echo 'package plugins' >prometheus/plugins/plugins.go # most of what is compiled, and never asked
cd prometheus
mkdir -p "$tools"
nice go build -ldflags "-s -w" -o "$tools/prometheus3" ./cmd/prometheus
