"""The folder of an explanation: a picture a file, the numbers as CSV, and one page that holds everything."""

import base64
import csv
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from forecast.explanation.layer import Explanation, Picture

HERE = Path(__file__).parent


def write(
    folder: Path, title: str, facts: Sequence[str], window: Picture, explained: Sequence[Explanation]
) -> None:
    """Draw every picture into `folder`, with index.html around them and numbers.csv."""
    pictures = [window, *(picture for explanation in explained for picture in explanation.pictures)]
    images = {picture.name: _draw(folder, picture) for picture in pictures}
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("page.html").render(
        title=title, facts=facts, window=window, explained=explained, images=images
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    _write_numbers(folder / "numbers.csv", explained)


def _draw(folder: Path, picture: Picture) -> str:
    """Save the picture, and give the image in base64."""
    path = folder / f"{picture.name}.png"
    picture.figure.savefig(path, dpi=110)
    return base64.b64encode(path.read_bytes()).decode()


def _write_numbers(path: Path, explained: Sequence[Explanation]) -> None:
    """One row a number, and a row for each value that it is read beside."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["layer", "kind", "number", "beside", "value"])
        for explanation in explained:
            layer = explanation.layer
            for number in explanation.numbers:
                for beside, value in {"": number.value, **number.beside}.items():
                    rows.writerow([layer.call.name, layer.kind, number.what, beside, value])
