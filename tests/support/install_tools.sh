#!/bin/sh
# Installs the programs that the end-to-end tests talk to, when this user may install packages.
# Without them those tests are skipped with a reason, or fail where CI=true.
set -u
missing=""
for pair in promtool:prometheus alertmanager:prometheus-alertmanager chromium:chromium; do
    command -v "${pair%%:*}" >/dev/null 2>&1 \
        || [ -x "/usr/bin/prometheus-${pair%%:*}" ] \
        || missing="$missing ${pair##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing$missing"
    apt-get update -qq >/dev/null && \
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing \
        >/dev/null || echo "could not install$missing"
else
    echo "not installed:$missing (tests that need them are skipped)"
fi
