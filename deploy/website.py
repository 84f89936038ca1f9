"""MkDocs hooks: links that leave deploy/ lead to the repository, folders become pages.

The Markdown files have links that work in the repository. What the website does not hold (code,
dashboards, the chart) is linked at the repository's address; pictures are copied.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PICTURES = "grafana/pictures"
FOLDERS = {"runbooks": "Runbooks", "decisions": "Decisions"}
_LINK = re.compile(r"(\]\()(\.\.?/[^()\s#]*)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pictures and an index of each folder; move docs/ to the top of the site."""
    for path in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"pictures/{path.name}", abs_src_path=str(path)))
    for folder in FOLDERS:
        files.append(File.generated(config, f"{folder}/index.md", content=_index(folder)))
    for file in files:
        if file.src_uri.startswith("docs/") and not file.src_uri.endswith(".css"):
            file.dest_uri = file.dest_uri.removeprefix("docs/")
            file.url = file.url.removeprefix("docs/") or "./"
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at what the site holds, else at the repository."""
    here = posixpath.dirname(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(here, match[2]))
        if path in FOLDERS:
            return match[1] + posixpath.relpath(f"{path}/index.md", here)
        known = files.get_file_from_path(path)
        if known is not None and not known.inclusion.is_excluded():
            return match[0]
        inside = posixpath.normpath(posixpath.join("deploy", path))
        if inside.startswith(PICTURES):
            picture = f"pictures/{posixpath.basename(inside)}"
            return match[1] + posixpath.relpath(picture, here)
        kind = "tree" if (ROOT / inside).is_dir() else "blob"
        return f"{match[1]}{config.extra['repository']}/{kind}/main/{inside}"

    return _LINK.sub(replaced, markdown)


def _index(folder: str) -> str:
    lines = [f"# {FOLDERS[folder]}", ""]
    for path in sorted((ROOT / "deploy" / folder).glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"
