"""The pages in a real browser: the script runs under the policy, and the console stays empty."""

import os
import subprocess

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import running
from tests.support.pages import HtmlPage
from tests.support.tools import program

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with running(tmp_path_factory.mktemp("pages") / "data") as site:
        now = SystemClock().now()
        known = {"pipeline": "shop", "chunks": [{"id": "a"}], "latency_ms": 120}
        site.post("/v1/queries", [known | {"timestamp": now - 60 * at} for at in range(40)])
        yield site


@pytest.fixture(scope="module")
def opened(site, tmp_path_factory):
    """A function that opens a page and answers its DOM, and what the console got."""

    def open_page(path: str) -> tuple[HtmlPage, str]:
        ran = subprocess.run(
            [
                program("chromium"), "--headless", "--no-sandbox", "--disable-gpu",
                "--disable-background-networking", "--enable-logging=stderr",
                f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
                "--virtual-time-budget=3000", "--dump-dom", site.url + path,
            ],
            capture_output=True, text=True, timeout=60, check=True,
            env=os.environ | {"TZ": "America/New_York"},
        )  # fmt: skip
        return HtmlPage(ran.stdout), ran.stderr

    return open_page


@pytest.mark.parametrize("path", ["/", "/pipelines/shop"])
def test_the_script_runs_and_the_policy_is_kept(opened, path):
    page, log = opened(path)
    assert "shop" in page.text
    assert "UTC" not in " ".join(page.texts_of("time"))  # in the reader's zone
    assert page.texts_of("time")
    assert ("span", "hidden", "") not in page.attributes  # the hint at the keys is shown
    assert "CONSOLE" not in log
    assert "Content Security Policy" not in log
