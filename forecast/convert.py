"""Convert a CSV or Parquet file of any size to a store: `forecast convert --help`."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.cli.main import main_without_run_folder
from forecast.system.errors import ConfigError, user_path
from forecast.system.files import check_output_folder
from forecast.system.location import locate
from forecast.system.progress import bar


def convert(config: DictConfig) -> None:
    from forecast.data.conversion import CsvChunks, ParquetChunks
    from forecast.data.conversion import convert as convert_chunks
    from forecast.data.files.read import find_kind
    from forecast.data.files.read_options import ReadOptions
    from forecast.data.store import PARTS

    if not config.data.path:
        raise ConfigError("data.path=FILE is needed: a CSV or Parquet file")
    file = locate(config.data.path)
    if not isinstance(file, Path):
        raise ConfigError(f"data.path={file}: a store is made from a file on disk: download it first")
    output = user_path(config.output) if config.output else Path(f"{file.name.split('.')[0]}.store")
    check_output_folder(output, marks=PARTS, suffix=".npy", overwrite=config.overwrite)
    options: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    reading = ReadOptions.of_settings(options)
    if options["duplicates"] is not None:
        raise ConfigError(
            f"data.duplicates={options['duplicates']}: a store merges no rows: leave it out, or train in memory "
            "(data=csv, data=long)"
        )
    kind = find_kind(file)
    if kind == "workbook":
        raise ConfigError(f"{file}: an Excel workbook, which needs no store: use data=csv data.path={file}")
    chosen = {key: options[key] for key in ("id_column", "date_column", "columns", "drop")}
    chunks = (ParquetChunks if kind == "parquet" else CsvChunks)(file, options=reading, size=config.chunk, **chosen)
    with bar(chunks.total, "Converting", chunks.unit) as progress:

        def show(done: int) -> None:
            progress.update(done - progress.n)

        convert_chunks(chunks, output, freq=config.data.freq, show_progress=show)
    report(file, output)


def report(file: Path, output: Path) -> None:
    """Print a summary of the store, and the command that trains on it."""
    from forecast.data.panel import describe_panel
    from forecast.data.row_ranges import StoredValues
    from forecast.data.store import open_store
    from forecast.tools.check.advice import write_command

    panel = open_store(output)
    assert isinstance(panel.values, StoredValues)
    size, texts = sum(path.stat().st_size for path in output.iterdir()), panel.texts
    print(f"data       {file}: {describe_panel(panel)}")
    if missing := sum(panel.values.missing):
        print(f"missing    {missing:,} numbers; they stay missing in the store")
    print(f"store      {output}: {panel.values.mapped.dtype}, {size / 2**20:,.3g} MiB")
    if texts:
        counts = ", ".join(f"{name} ({len(found):,} texts)" for name, found in texts.items())
        print(f"text       {counts}: covariates")
    covariates = {"data.past_covariates": list(texts)} if texts else {}
    settings = {"data": "store", "data.path": str(output), **covariates, "suggest": True}
    print(f"next       {write_command(settings, ())}")


if __name__ == "__main__":
    main_without_run_folder("convert")
