"""Convert a file larger than memory to a store, once: `python -m forecast.convert --help`."""

from forecast.cli.main import command

if __name__ == "__main__":
    command("convert", "forecast.commands.convert:convert")
