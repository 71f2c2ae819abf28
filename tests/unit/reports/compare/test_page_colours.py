"""Contrast of the colours of the comparison page."""

import re
from pathlib import Path

from forecast.reports.colours import ATTENTION_TYPES, DARK, LIGHT, colour_number
from forecast.reports.compare import page

FOLDER = Path(page.__file__).parent


def get_luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def get_contrast(one: str, other: str) -> float:
    light, dark = sorted((get_luminance(one), get_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_have_enough_contrast_in_both_schemes() -> None:
    """WCAG 2 asks for a contrast of 4.5 for text and 3 for graphics."""
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))
        for block in re.findall(r"\{[^{}]*--back:[^{}]*\}", (FOLDER / "page.css").read_text())
    ]
    assert len(schemes) == 3  # light, dark by the button, dark by the setting of the system
    assert schemes[1] == schemes[2]
    for scheme, name, drawn in zip(schemes, ("light", "dark"), (LIGHT, DARK), strict=False):
        for colour in ("text", "soft", "link", "good", "bad", "tied"):
            assert get_contrast(scheme[colour], scheme["back"]) >= 4.5, (name, colour)
            assert get_contrast(scheme[colour], scheme["best"]) >= 4.5, (name, colour)
        assert len(set(drawn)) == len(drawn)
        assert min(get_contrast(colour, scheme["back"]) for colour in drawn) >= 3


def test_types_of_a_users_module_have_other_colours_than_ours() -> None:
    names = ["mine", "full", "yours"]
    assert [colour_number(name, names) for name in names] == [
        len(ATTENTION_TYPES),
        0,
        len(ATTENTION_TYPES) + 1,
    ]
    assert len(LIGHT) == len(DARK) >= len(ATTENTION_TYPES) + 2
