"""Body of `python -m forecast.convert`: convert a CSV or Parquet file to a store, whatever its size."""

import contextlib
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.data.files.columns import IdColumn
from forecast.data.files.grid import check_duplicates
from forecast.data.files.read import is_parquet
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import FileSource
from forecast.data.store.chunks import CsvChunks
from forecast.data.store.convert import Note
from forecast.data.store.convert import convert as convert_chunks
from forecast.data.store.format import PARTS, open_store
from forecast.data.store.parquet_chunks import ParquetChunks
from forecast.data.store.source import find_static
from forecast.data.time_features import describe_frequency
from forecast.system.errors import ConfigError, DataError, user_path
from forecast.system.files import check_output_folder
from forecast.system.formatting import plural
from forecast.system.location import locate
from forecast.system.progress import bar
from forecast.tools.check.advice import write_command


def convert(config: DictConfig) -> None:
    """Write the store and print a summary of it."""
    if not config.data.path:
        raise ConfigError("data.path=FILE is needed: a CSV or Parquet file")
    file = locate(config.data.path)
    if not isinstance(file, Path):
        raise ConfigError(f"data.path={file}: a store is made from a file on disk: download it first")
    output = user_path(config.output) if config.output else Path(f"{file.name.split('.')[0]}.store")
    check_output_folder(output, marks=PARTS, suffix=".npy", overwrite=config.overwrite)
    options: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    reading = ReadOptions(**{key: options[key] for key in ReadOptions.option_names() if key in options})
    check_duplicates(options["duplicates"])
    kind = ParquetChunks if is_parquet(file) else CsvChunks
    chunks = kind(
        file,
        id_column=options["id_column"],
        date_column=options["date_column"],
        columns=options["columns"],
        options=reading,
        size=config.chunk,
        drop=options["drop"],
        duplicates=options["duplicates"],
    )
    with bar(chunks.total, "Converting", chunks.unit) as progress:

        def show(done: int) -> None:
            progress.update(done - progress.n)

        try:
            note = convert_chunks(
                chunks,
                output,
                freq=config.data.freq,
                options={**options, "path": str(file.resolve()), "chunk": config.chunk},
                write_message=lambda text: progress.write(f"note       {text}"),
                show_progress=show,
            )
        except DataError as error:
            with contextlib.suppress(ConfigError):  # settings of many series, which this source does not take
                FileSource(**{**options, "path": file}).add_advice(error, keys=options)
            raise
    report(file, output, note, options["id_column"])


def report(file: Path, output: Path, note: Note, id_column: IdColumn) -> None:
    """Print a summary of the store, and the command that trains on it."""
    assert note.freq is not None, "known after the last chunk"
    size, texts = sum(path.stat().st_size for path in output.iterdir()), note.kinds.texts
    shape = f"{note.ranges.rows:,} rows × {plural(len(note.columns), 'column')}"
    many = f" of {plural(len(note.series.ids), 'series')}" if id_column else ""
    print(
        f"data       {file}: {shape}{many}, every {describe_frequency(note.freq)}, "
        f"{min(note.series.first_dates)} to {note.series.last_date}"
    )
    if missing := sum(note.ranges.missing):
        print(f"missing    {missing:,} numbers; they stay missing in the store")
    print(f"store      {output}: float{8 * int(note.dtype[-1])}, {size / 2**20:,.3g} MiB")
    if texts:
        print(
            f"text       {', '.join(f'{name} ({len(found):,} texts)' for name, found in texts.items())}: covariates"
        )
    static = find_static(open_store(output)) if id_column else []
    if static:
        print(f"static     {', '.join(static)}: one value in each series")
    covariates = {
        "data.past_covariates": [name for name in texts if name not in static],
        "data.static_covariates": static,
    }
    typed = {
        "data": "store",
        "data.path": str(output),
        **{key: names for key, names in covariates.items() if names},
    }
    print(f"next       {write_command(typed, ())}")
