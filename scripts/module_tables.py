"""Tables of modules in docs/modules.md, from the first line of each module's docstring.

`python scripts/module_tables.py` writes them again.
"""

import ast
import re
from pathlib import Path

from tables import markdown_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "modules.md"
HEADER = ["module", "purpose"]


def main() -> None:
    PAGE.write_text(update(PAGE.read_text()))


def update(page: str) -> str:
    """Replace the table in the section of each folder of the package.

    Raises:
        ValueError: a folder has no section with a table.
    """
    for folder in sorted(
        {path.parent for path in (ROOT / "forecast").rglob("*.py") if path.stem != "__init__"}
    ):
        heading = f"## `{folder.relative_to(ROOT)}/`\n\n"
        section = rf"(?<={re.escape(heading)})(?:\|.*\n)+"
        page, count = re.subn(section, lambda _, folder=folder: make_table(folder), page)
        if count != 1:
            raise ValueError(f"docs/modules.md: add the section {heading.strip()!r} with a table")
    return page


def make_table(folder: Path) -> str:
    """Return one row for each module of a folder, in the order of their names."""
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    rows = [[f"`{path.stem}`", first_line(path).replace("|", r"\|")] for path in modules]
    return "".join(f"{line}\n" for line in markdown_table(HEADER, rows))


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without the full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None, f"{path}: add a docstring"
    return docstring.splitlines()[0].removesuffix(".")


if __name__ == "__main__":
    main()
