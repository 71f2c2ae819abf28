"""Shape and type checks of every call of the package; importing this module turns them on.

Modules that the hook's modules import are compiled from source, without the cache: libraries are imported before it.
"""

import beartype.door  # noqa: F401
import hydra.utils  # noqa: F401
import lightning  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pooch  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.signal
import scipy.stats  # noqa: F401
import wandb  # noqa: F401
from jaxtyping import install_import_hook

install_import_hook("forecast", "beartype.beartype")
