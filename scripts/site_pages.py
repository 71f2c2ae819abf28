"""A hook of MkDocs: pages of the site whose text stands outside docs/, such as README.md as the first page."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "data/README.md": "data.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those of docs/."""
    for source, page in PAGES.items():
        text = move_links((ROOT / source).read_text(), posixpath.dirname(source))
        files.append(File.generated(config, page, content=text))
    return files


def move_links(text: str, folder: str) -> str:
    """Return a page of a folder of the repository with links as they are on the site, where docs/ is the root."""

    def move(match: re.Match[str]) -> str:
        target, anchor = match.groups()
        target = posixpath.normpath(posixpath.join(folder, target))
        return f"]({PAGES.get(target, target.removeprefix('docs/'))}{anchor or ''})"

    return re.sub(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]+)?\)", move, text)
