#!/bin/sh
# Builds Grafana's dashboard-linter for tests/deploy/test_dashboard_linter.py into .venv/tools: a
# quarter of an hour of two cores with Go, once. Where the module proxy does not have it, CHECKOUT is
# a clone of its repository.
set -eu
version=1be3836 # the last that reads classic dashboards alone, with far fewer modules
tools=$PWD/.venv/tools
[ -x "$tools/dashboard-linter" ] && exit 0
mkdir -p "$tools"
if [ -z "${CHECKOUT:-}" ]; then
    GOBIN=$tools nice go install "github.com/grafana/dashboard-linter@$version"
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet "$CHECKOUT" "$folder"
cd "$folder"
git checkout --quiet "$version"
nice go build -buildvcs=false -o "$tools/dashboard-linter" .
