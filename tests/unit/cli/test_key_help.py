"""The rows of --help come from the comments and defaults in conf/."""

from pathlib import Path

import pytest

from forecast.cli.compose import compose_command, describe_keys, read_comments
from tests.support.configurations import COMMANDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_in_the_help_of_a_command_has_a_comment(command: str) -> None:
    lines = compose_command(command, []).hydra.help.template.splitlines()
    assert "${" not in "".join(lines)
    assert sum(line.startswith("  ") for line in lines) > 5
    assert max(map(len, lines)) <= 120


def test_comments_of_a_file_are_read_by_key(tmp_path: Path) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(
        "# A comment on the file.\n"
        "plain: 1\n"
        'mark: "#"       # one # two\n'
        "long: null      # first line,\n"
        "                # second line\n"
        "# Not a continuation.\n"
        "group:          # of keys\n"
        "  inner: []     # within\n"
        "other: 2        # after\n"
    )
    assert read_comments(path) == {
        "mark": "one # two",
        "long": "first line, second line",
        "group": "of keys",
        "group.inner": "within",
        "other": "after",
    }


@pytest.mark.parametrize(
    ("typed", "default"), [([], "336"), (["model=informer"], "96"), (["seq_len=48"], "48")]
)
def test_defaults_are_those_of_the_chosen_options(typed: list[str], default: str) -> None:
    row = describe_keys("seq_len", _root_=compose_command("train", typed))
    assert row.startswith("  seq_len             steps of history")
    assert row.endswith(f"(default: {default})")
