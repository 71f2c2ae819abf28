"""Convert a CSV or Parquet file of any size to a store: `python -m forecast.convert --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("convert", "forecast.commands.convert:convert")
