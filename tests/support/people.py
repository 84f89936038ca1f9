"""A person with a browser, as far as a daemon notices."""

import re
from typing import Any

import requests

from tests.support.http import Answer, Site
from tests.support.pages import HtmlPage

FIELD = re.compile(r'name="form_token" value="([0-9a-f]*)"')


class Browser:
    """Keeps cookies, follows no redirect, and says which page a form came from."""

    def __init__(self, site: Site) -> None:
        self._url = site.url
        self._session = requests.Session()

    def get(self, path: str, **headers: str) -> Answer:
        return self._send("GET", path, None, headers)

    def page(self, path: str) -> HtmlPage:
        answer = self.get(path)
        assert answer.status == 200, answer
        return HtmlPage(answer.text)

    def token_on(self, path: str) -> str:
        """The token of the forms on a page."""
        tokens = FIELD.findall(self.get(path).text)
        return tokens[-1] if tokens else ""

    def submit(self, path: str, fields: dict[str, str], on: str = "/", **headers: str) -> Answer:
        """Send a form that stands on a page."""
        fields = {"form_token": self.token_on(on)} | fields
        return self.post(path, fields, **{"referer": self._url + on} | headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        return self._send("POST", path, fields, {"origin": self._url} | headers)

    def sign_in(self, token: str, following: str = "/") -> Answer:
        fields = {"token": token, "next": following}
        return self.submit("/login", fields, on="/login?again=1")

    @property
    def cookies(self) -> dict[str, str]:
        return self._session.cookies.get_dict()

    def use_cookies(self, cookies: dict[str, str]) -> None:
        self._session.cookies.update(cookies)

    def _send(self, method: str, path: str, fields: Any, headers: dict[str, str]) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"accept": "text/html,*/*;q=0.8"} | {k: v for k, v in named.items() if v}
        got = self._session.request(
            method, self._url + path, data=fields, headers=sent, timeout=30, allow_redirects=False
        )
        return Answer(got.status_code, got.headers, got.content)
