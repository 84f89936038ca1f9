# On a fresh Debian machine with Python 3.11 to 3.13 and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOWEST := tests/sources/otlp tests/web/pages tests/windows tests/signals tests/exposition

.PHONY: lowest dist frameworks collector prometheus3 dashboard-linter demo check test golden docs pictures bench fuzz faults chaos soak lock sbom tools clean kubernetes

demo: $(INSTALLED)
	$(RUN)/ragmon demo

check: $(INSTALLED)
	$(RUN)/ruff format --check
	$(RUN)/ruff check
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/pytest -q tests/house tests/docs/test_links.py

# Those that start real programs run beside the others: two thirds of the time.
test: $(INSTALLED) tools
	@sh tests/support/run_tests.sh $(RUN)/pytest

# The parts that meet other packages, on the lowest version of each that pyproject.toml allows.
lowest: $(INSTALLED)
	$(RUN)/uv venv --quiet --clear --python $(RUN)/python $(VENV)-lowest
	$(RUN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
		'.[grpc]' 'pytest>=8.3' 'pytest-timeout>=2.3' 'pytest-rerunfailures>=15' 'hypothesis>=6.100'
	PYTHONPATH=. $(VENV)-lowest/bin/python -m pytest -q -W ignore::DeprecationWarning $(LOWEST)

golden: $(INSTALLED)
	$(RUN)/python -m grafana.generate
	rm -f helm/ragmon/rules/* helm/ragmon/dashboards/*
	cp deploy/prometheus/rules/*.yaml helm/ragmon/rules/
	cp grafana/dashboards/*.json helm/ragmon/dashboards/
	GOLDEN=1 $(RUN)/pytest -q $$(grep -rlE "support.golden|GOLDEN" tests --include="test_*.py")
	GOLDEN=1 $(RUN)/pytest -q tests/docs/test_reference.py  # made from the files above

# The website, into site/; a broken link is an error.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict --quiet

# The dashboards over two days of the demo, as a real Prometheus answers them, and the pages for
# people in Chromium; eight minutes.
pictures: $(INSTALLED) tools
	$(RUN)/python -m tests.pictures
	$(RUN)/python -m tests.pictures.pages

bench: $(INSTALLED)
	$(RUN)/python tests/benchmarks/run.py

# All fuzz targets, two at a time; what they find lies in .fuzz/failing.
fuzz: MINUTES ?= 15
fuzz: $(INSTALLED)
	$(RUN)/python -m tests.fuzz --minutes $(MINUTES)

# A hundred kill -9, a hundred losses of power, every fault of disk and clock: half an hour.
faults: $(INSTALLED)
	$(RUN)/python -m tests.faults

# A hundred thousand queries through workers, evaluators, PostgreSQL and Kafka that are killed a hundred
# times and frozen fifty, in both protocols of groups: a quarter of an hour.
chaos: $(INSTALLED) tools
	$(RUN)/python -m tests.chaos

# A month of simulated traffic in an hour; MINUTES=15 is a week of it.
soak: MINUTES ?= 60
soak: $(INSTALLED)
	$(RUN)/python -m tests.soak --minutes $(MINUTES)

# The lock names no index, so that any mirror serves it.
lock: $(INSTALLED)
	$(RUN)/uv pip compile pyproject.toml --extra demo --extra dev --extra grpc --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header -q \
		-o requirements.lock
	$(RUN)/uv pip compile pyproject.toml -c requirements.lock --extra cluster --extra demo --extra grpc \
		--universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header -q -o deploy/requirements.lock

# What the image holds, for scanners: grype sbom:sbom.cdx.json
sbom: $(INSTALLED)
	$(RUN)/python deploy/bill_of_materials.py sbom > sbom.cdx.json

# Everything of a release, into dist/: the same bytes from the same commit. The image needs its base
# by digest, BASE=docker.io/library/python:3.13-slim-bookworm@sha256:…, and skopeo; or the folder of
# an OCI layout, BASE_LAYOUT=…. Without them there is no image.
dist: ARCHITECTURE ?= amd64
dist: $(INSTALLED)
	@[ -z "$(BASE)" ] || { rm -rf .tools/base && mkdir -p .tools \
		&& skopeo copy --override-arch $(ARCHITECTURE) docker://$(BASE) oci:.tools/base:base; }
	$(RUN)/python deploy/dist.py dist --architecture $(ARCHITECTURE) \
		$(if $(BASE),--base .tools/base,$(if $(BASE_LAYOUT),--base $(BASE_LAYOUT)))

# Real programs for the end-to-end tests, where they can be had.
tools:
	@sh tests/support/install_tools.sh

# A real API server for tests/end_to_end/test_kubernetes.py, which is skipped without: five minutes
# with Go, once.
kubernetes: $(INSTALLED) tools
	sh tests/support/build_kubernetes.sh
	$(RUN)/pytest tests/end_to_end/test_kubernetes.py

# A current Prometheus for tests/end_to_end/test_scrape_formats.py, which uses Debian's without it.
prometheus3: $(INSTALLED) tools
	sh tests/support/build_prometheus.sh
	$(RUN)/pytest tests/end_to_end/test_scrape_formats.py

# Grafana's linter for tests/deploy/test_dashboard_linter.py, which is skipped without.
dashboard-linter: $(INSTALLED)
	sh tests/support/build_linter.sh
	$(RUN)/pytest tests/deploy/test_dashboard_linter.py

# The frameworks that the client has adapters for, in an environment of their own: tests/client/frameworks
# is skipped without them.
frameworks: $(INSTALLED)
	$(RUN)/uv venv --quiet --clear .tools/frameworks
	$(RUN)/uv pip install --quiet --python .tools/frameworks/bin/python \
		langchain-core llama-index-core haystack-ai msgspec pytest
	PYTHONPATH=. .tools/frameworks/bin/python -m pytest -q -o addopts= -o filterwarnings= --noconftest \
		-p no:cacheprovider --import-mode=importlib tests/client/frameworks

# A Collector for tests/end_to_end/test_collector.py, which does without it.
collector: $(INSTALLED) tools
	sh tests/support/build_collector.sh
	$(RUN)/pytest tests/end_to_end/test_collector.py

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "ragmon needs Python 3.11 to 3.13; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "apt-get install python3-venv, then again"; exit 1; }
	$(RUN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(RUN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV)
