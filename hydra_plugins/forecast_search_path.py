"""Additions to Hydra's search path: the slots of attention types, and a user's own options.

The module stands outside of forecast/ because Hydra takes plugins only from the namespace package `hydra_plugins`.
"""

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from forecast.system.location import GROUPS_OF_ATTENTION, conf_folders, folder_of_group


class AttentionSlots(FileConfigSource):
    """Each file of the folder `attention` as an option of five groups.

    encoder, decoder, cross  place the class and the options that the file names in this slot of the model
    variables                places them in the slot of layers over variables
    attention                chooses the type for the encoder and the decoder, and full attention between the two
    """

    @staticmethod
    def scheme() -> str:
        return "attention-slots"

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, option = config_path.removesuffix(".yaml").partition("/")
        package = {"attention": "_global_", "variables": "model.attention.variables"}.get(group, "model.attention")
        if group == "attention":
            slots = ["_self_", {"/encoder": option}, {"/decoder": option}, {"/cross": "full"}]
            name = {"model": {"attention": {"name": f"${{attention_name:{option}}}"}}}
            config = OmegaConf.create({"defaults": slots, **name})
        else:
            slot = "encoder" if group == "variables" else group
            layer = OmegaConf.to_container(super().load_config(self._place(config_path)).config)
            config = OmegaConf.create({"types": {slot: option}, slot: {**layer, "_partial_": True}})  # type: ignore[misc]
        return ConfigResult(self.provider, self.path, config, {"package": package})

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", *GROUPS_OF_ATTENTION)

    def is_config(self, config_path: str) -> bool:
        return self.is_group(config_path.partition("/")[0]) and super().is_config(self._place(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [] if results_filter == ObjectType.CONFIG else [*GROUPS_OF_ATTENTION]
        return super().list(folder_of_group(config_path), results_filter)

    def available(self) -> bool:
        return super().is_group("attention")

    @staticmethod
    def _place(config_path: str) -> str:
        group, _, option = config_path.partition("/")
        return f"{folder_of_group(group)}/{option}"


class ForecastSearchPath(SearchPathPlugin):
    """Extend the search path by the attention slots, and by the folder of the user after that of this package."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        folders = conf_folders()
        for folder in reversed(folders):
            search_path.prepend("attention", f"{AttentionSlots.scheme()}://{folder}")
        for folder in folders[1:]:
            search_path.append(provider="FORECAST_CONF", path=f"file://{folder}")
