"""Container, compose file and unit: what they name exists, and they run with few rights."""

import configparser
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from ragmon.config import Settings, load
from tests.support.paths import ROOT
from tests.support.tools import program

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def dockerfile() -> list[tuple[str, str]]:
    """Instructions with their arguments, continuation lines joined."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in dockerfile() if name == instruction]


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(DEPLOY / "systemd/ragmon.service", encoding="utf-8")
    return parser["Service"]


def settings(pairs: list[str]) -> Settings:
    return load(environment=dict(pair.split("=", 1) for pair in pairs)).settings


def mounted() -> list[Path]:
    """Files and folders of the repository that compose mounts."""
    volumes = [each for service in COMPOSE["services"].values() for each in service["volumes"]]
    return [DEPLOY / each.split(":")[0] for each in volumes if each.startswith(".")]


def test_the_image_copies_what_exists():
    copied = [shlex.split(rest) for rest in arguments("COPY") if not rest.startswith("--from")]
    sources = [source for *sources, _ in copied for source in sources]
    assert {"deploy/requirements.lock", "ragmon"} <= set(sources)
    assert all((ROOT / source).exists() for source in sources)


def stanzas(path: Path) -> dict[str, set[str]]:
    """Hashes of each pinned version in a lock file."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^(\S+==\S+)((?:.*\n)(?:    --hash.*\n)*)", text, re.MULTILINE)
    return {pin: set(re.findall(r"sha256:[0-9a-f]{64}", hashes)) for pin, hashes in found}


def test_the_image_installs_by_hash_what_the_project_locked():
    assert any("--require-hashes" in command for command in arguments("RUN"))
    image, everything = stanzas(DEPLOY / "requirements.lock"), stanzas(ROOT / "requirements.lock")
    assert image.items() <= everything.items(), "compile it again with -c requirements.lock"
    assert all(image.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    everyone = [*project["dependencies"], *extras["grpc"], *extras["demo"], *extras["cluster"]]
    wanted = {re.match(r"[\w-]+", each)[0] for each in everyone}
    assert wanted <= {pin.split("==")[0] for pin in image}


def test_the_image_runs_as_nobody_and_asks_for_a_token():
    assert arguments("USER") == ["10001:10001"]
    environment = settings(
        [pair for pair in shlex.split(" ".join(arguments("ENV"))) if pair.startswith("RAGMON_")]
    )
    assert str(environment.data_dir) == arguments("VOLUME")[0] == "/data"
    assert environment.host == "0.0.0.0"
    assert not environment.auth.allow_anonymous


def test_the_health_check_asks_the_port_and_path_that_answer():
    (check,) = arguments("HEALTHCHECK")
    assert f"http://127.0.0.1:{Settings().port}/livez" in check
    assert arguments("EXPOSE") == [str(Settings().port)]


def test_compose_mounts_what_exists():
    assert mounted()
    assert [path for path in mounted() if not path.exists()] == []


def test_compose_opens_nothing_to_the_network():
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    ragmon = COMPOSE["services"]["ragmon"]
    pairs = [f"{key}={value}" for key, value in ragmon["environment"].items()]
    assert settings(pairs).auth.allow_anonymous
    assert ragmon["read_only"]
    assert (DEPLOY / ragmon["build"]["context"] / ragmon["build"]["dockerfile"]).is_file()


def test_volumes_of_compose_are_declared():
    named = {
        each.split(":")[0]
        for service in COMPOSE["services"].values()
        for each in service["volumes"]
        if not each.startswith(".")
    }
    assert named == set(COMPOSE["volumes"])


def inside(service: str) -> dict[str, Path]:
    """What a container sees of the repository: its path to ours."""
    volumes = [each.split(":") for each in COMPOSE["services"][service]["volumes"]]
    return {there: (DEPLOY / here).resolve() for here, there, *_ in volumes if here.startswith(".")}


def test_grafana_finds_its_dashboards_and_prometheus():
    grafana = COMPOSE["services"]["grafana"]
    seen = inside("grafana")
    folder = seen["/etc/grafana/provisioning"]
    (board,) = yaml.safe_load((folder / "dashboards/ragmon.yaml").read_text())["providers"]
    assert seen[board["options"]["path"]] == ROOT / "grafana/dashboards"
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (seen[str(home.parent)] / home.name).is_file()
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in COMPOSE["services"]


def test_prometheus_scrapes_the_job_that_the_rules_select():
    path = DEPLOY / "prometheus/compose/prometheus.yaml"
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["scrape_configs"]
    assert job["job_name"] == "ragmon"
    assert job["static_configs"][0]["targets"] == [f"ragmon:{Settings().port}"]


@pytest.mark.parametrize(
    ("tool", "check", "file"),
    [
        ("promtool", ["check", "config", "--syntax-only"], "prometheus.yaml"),
        ("amtool", ["check-config"], "alertmanager.yaml"),
    ],
)
def test_prometheus_and_alertmanager_take_their_files(tool, check, file):
    command = [program(tool), *check, DEPLOY / "prometheus/compose" / file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_unit_keeps_its_data_where_it_may_write():
    service = unit()
    assert f"/var/lib/{service['StateDirectory']}" == str(
        settings(service["Environment"].split()).data_dir
    )
    assert service["WorkingDirectory"] == f"/etc/{service['ConfigurationDirectory']}"


def test_the_unit_waits_for_what_ragmon_says():
    service = unit()
    assert service["Type"] == "notify"
    assert service["WatchdogSec"] == "60s"
    assert "AF_UNIX" in service["RestrictAddressFamilies"]  # of the socket
    assert service["Restart"] in {"on-failure", "always", "on-watchdog"}
    assert service["MemoryMax"] == "1G"


def test_the_unit_exposes_little():
    command = [program("systemd-analyze"), "security", "--offline=true", "--threshold=12"]
    path = DEPLOY / "systemd/ragmon.service"
    done = subprocess.run([*command, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]
    assert "Overall exposure level for ragmon.service" in done.stdout


def test_systemd_takes_the_unit(tmp_path):
    text = (DEPLOY / "systemd/ragmon.service").read_text(encoding="utf-8")
    path = tmp_path / "ragmon.service"
    path.write_text(text.replace("/opt/ragmon/bin/ragmon", "/bin/true"), encoding="utf-8")
    command = [program("systemd-analyze"), "verify", "--man=no", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
