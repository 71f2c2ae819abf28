"""Compare trained runs in one page: `python -m forecast.compare RUNS...`, see `--help`."""

from contextlib import ExitStack
from pathlib import Path

from omegaconf import DictConfig

from forecast.cli import command
from forecast.errors import ConfigError
from forecast.files import check_free, whole_file


def compare(config: DictConfig) -> None:
    """Read the runs, sort them into tasks and variants, and write the page and its tables: all of them or none."""
    # Here and not above, so that --help and --cfg answer at once.
    import pandas as pd

    from forecast.comparison import page, papers, screen
    from forecast.comparison.runs import find, read_all
    from forecast.comparison.tables import no_formula, rows
    from forecast.comparison.tasks import tasks
    from forecast.progress import track

    output = Path(config.output)
    if output.suffix != ".html":
        raise ConfigError(f"output={output}: the page is an HTML file: give a name that ends in .html")
    beside = [output.with_suffix(suffix) for suffix in (".csv", ".md", ".tex")]
    check_free(output, *beside, overwrite=config.overwrite)

    places = [config.runs] if isinstance(config.runs, str) else [str(place) for place in config.runs]
    if not places:
        raise ConfigError("name the runs to compare: python -m forecast.compare runs")
    runs, left_out = read_all(find(places), lambda folders: track(folders, "reading"))
    if not runs:
        why = "; ".join(f"{run.folder.name}: {run.reason}" for run in left_out[:3]) or "no folders"
        raise ConfigError(f"no finished run in {', '.join(places)} ({why})")
    compared = tasks(runs)

    contents = [
        page.render(str(config.title), compared, left_out),
        pd.DataFrame([row for task in compared for row in rows(task)]).map(no_formula).to_csv(index=False),
        papers.markdown(compared),
        papers.latex(compared),
    ]
    with ExitStack() as files:
        for path, content in zip((output, *beside), contents, strict=True):
            files.enter_context(whole_file(path)).write_text(content, encoding="utf-8")
    screen.show(compared, left_out)
    print(f"saved {output}, beside it {', '.join(path.name for path in beside)}")


if __name__ == "__main__":
    command("compare", compare, positional="runs")
