"""The output folder: one PNG file per picture, the numbers as CSV, and an HTML page with everything."""

import base64
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

from forecast.tools.explain.input_report import InputStudy
from forecast.tools.explain.layer import Explanation, Picture

HERE = Path(__file__).parent


def write_page(
    folder: Path,
    title: str,
    facts: Sequence[str],
    window: Picture,
    inputs: InputStudy | None,
    explained: Sequence[Explanation],
) -> None:
    """Write the pictures, index.html and the tables into `folder`.

    The tables are importance.csv and contributions.csv of the inputs, and numbers.csv of the attention layers.
    """
    of_inputs = inputs.pictures() if inputs else []
    of_layers = [picture for explanation in explained for picture in explanation.pictures]
    pictures = [window, *of_inputs, *of_layers]
    images = {picture.name: _save_picture(folder, picture) for picture in pictures}
    page = render(
        "page.html",
        title=title,
        facts=facts,
        window=window,
        inputs=inputs,
        of_inputs=of_inputs,
        explained=explained,
        images=images,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")
    if inputs:
        inputs.write_tables(folder)
    if explained:
        _write_numbers(folder / "numbers.csv", explained)


def render(template: str, **content: Any) -> str:
    """Fill in a template of this folder. Jinja escapes names."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template).render(**content)


def encode_figure(figure: Figure) -> str:
    """Return the figure as a PNG file in base64."""
    file = io.BytesIO()
    figure.savefig(file, dpi=110)
    return base64.b64encode(file.getvalue()).decode()


def _save_picture(folder: Path, picture: Picture) -> str:
    """Save the picture as a PNG file. Returns the file in base64."""
    path = folder / f"{picture.name}.png"
    picture.figure.savefig(path, dpi=110)
    return base64.b64encode(path.read_bytes()).decode()


def _write_numbers(path: Path, explained: Sequence[Explanation]) -> None:
    """Write one row for each number, and one for each reference value of a number (column `beside`)."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["layer", "kind", "number", "beside", "value"])
        for explanation in explained:
            layer = explanation.layer
            for number in explanation.numbers:
                for beside, value in {"": number.value, **number.beside}.items():
                    rows.writerow([layer.call.name, layer.attention_type, number.what, beside, value])
