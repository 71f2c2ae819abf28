"""Once imported, compose each configuration of conf/ once: Hydra takes longer for it than most commands do."""

import copy
import functools
import os
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig, _utils, base, grammar_parser
from omegaconf.resolvers import oc

from forecast.system.errors import CONF

OWN = {"pkg://hydra.conf", f"attention-slots://{CONF}", str(CONF), "structured://"}
_load = ConfigLoaderImpl.load_configuration
_composed: dict[Any, DictConfig] = {}


def load_once(loader: ConfigLoaderImpl, **given: Any) -> DictConfig:
    if {element.path for element in loader.config_search_path.get_path()} != OWN:
        return _load(loader, **given)
    key = tuple((name, str(value)) for name, value in sorted(given.items()))
    if key not in _composed:
        _composed[key] = _load(loader, **given)
    config = copy.deepcopy(_composed[key])
    config.hydra.runtime.cwd = os.getcwd()
    return config


ConfigLoaderImpl.load_configuration = load_once  # type: ignore[method-assign]
for module in (_utils, base, oc):  # they parse the same few texts for each configuration
    module.parse = functools.cache(grammar_parser.parse)  # type: ignore[attr-defined]
