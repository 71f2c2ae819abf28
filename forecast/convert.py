"""Convert a CSV or Parquet file of any size to a store: `python -m forecast.convert --help`."""

from forecast.cli.main import main_without_run_folder

if __name__ == "__main__":
    main_without_run_folder("convert", "forecast.commands.convert:convert")
