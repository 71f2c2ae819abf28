"""What was understood of a table, before any training: `python -m forecast.check --help`."""

import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli import command
from forecast.configuration import check_one_table
from forecast.errors import ConfigError
from forecast.overrides import parse

PICTURES = (".png", ".svg", ".pdf")


def check(config: DictConfig) -> None:
    """Read the table, examine it, print what was found; save a picture and the findings as JSON."""
    # Here and not above, so that --help and --cfg answer without loading torch.
    from hydra.utils import instantiate
    from tqdm import tqdm

    from forecast.diagnosis import STAGES, diagnose, picture, report
    from forecast.diagnosis.advice import Asked
    from forecast.diagnosis.content import content
    from forecast.files import check_free, whole_file, write_json

    check_one_table(config, "check")
    path = Path(config.output)
    if path.suffix not in PICTURES:
        raise ConfigError(f"output={path}: the picture must end in {', '.join(PICTURES)}")
    beside = path.with_suffix(".json")
    check_free(path, beside, overwrite=config.overwrite)
    typed = typed_about_data()
    data = instantiate(
        config.data,
        seq_len=config.seq_len or 1,
        pred_len=config.pred_len or 1,
        features=config.features or "M",
    )
    asked = Asked(
        seq_len=config.seq_len,
        label_len=config.label_len,
        pred_len=config.pred_len,
        features=config.features,
        target=config.data.target,
        target_typed="data.target" in typed,
        season=config.data.season,
        batch_size=typed.get("data.batch_size"),
        fill=config.data.get("fill"),
        columns="data.columns" in typed,
    )
    with tqdm(total=len(STAGES), delay=2, leave=False, file=sys.stderr) as bar:

        def stage(what: str) -> None:
            bar.set_description(what, refresh=False)
            bar.update()

        diagnosis = diagnose(data, asked, stage)
        findings = content(diagnosis, typed)
        stage("picture")
        with whole_file(beside) as temporary_beside, whole_file(path) as temporary:
            picture.draw(diagnosis, temporary)
            write_json(temporary_beside, findings)
    report.show(diagnosis, typed)
    print(f"saved {path} and {beside}")


def typed_about_data() -> dict[str, Any]:
    """The data group and its keys that the user gave, beginning with the group: it chooses what the keys mean."""
    given = {o.key_or_group: o.value() for o in parse(list(HydraConfig.get().overrides.task))}
    about = {key: value for key, value in given.items() if key.startswith("data.")}
    return {"data": HydraConfig.get().runtime.choices["data"], **about}


if __name__ == "__main__":
    command("check", check)
