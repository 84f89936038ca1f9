"""Rendered pages as a test reads them."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input", "img", "hr", "source"}


class HtmlPage(HTMLParser):
    """Text, links, ids and elements of a page; every element must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []  # tag, name, value
        self._open: list[str] = []
        self._pieces_in: list[tuple[str, str]] = []
        self.feed(html)
        self.close()
        assert self._open == []
        assert len(self.ids) == len(set(self.ids)), "an id is there twice"

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag, attrs):  # of SVG
        self.tags.append(tag)
        self._note(tag, attrs)

    def _note(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("href", "src"):
                self.loaded.append(value)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.pieces.append(data)
        self._pieces_in.append((self._open[-1] if self._open else "", data))

    def texts_of(self, tag: str) -> list[str]:
        """The text of each element of a kind."""
        return [data for inside, data in self._pieces_in if inside == tag]


def check_policy(page: HtmlPage) -> None:
    """Nothing on the page needs more than its Content-Security-Policy allows."""
    assert "style" not in page.tags
    assert [
        name for _, name, _ in page.attributes if name == "style" or name.startswith("on")
    ] == []
    assert page.tags.count("script") == 1
    assert page.loaded
    assert all(address.startswith("/static/") for address in page.loaded), page.loaded
    assert not any(link.lower().startswith(("javascript:", "data:")) for link in page.links)
