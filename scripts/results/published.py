"""Published test scores on scaled values, which docs/results.md shows for comparison."""

from results.cells import PAPER_HORIZONS

PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "TimeMixer (2024)": {
        "etth1": (0.361, 0.409, 0.430, 0.445),
        "etth2": (0.271, 0.317, 0.332, 0.342),
        "ettm1": (0.291, 0.327, 0.360, 0.415),
        "electricity": (0.129, 0.140, 0.161, 0.194),
    },
    "PatchTST/64 (2023)": {
        "etth1": (0.370, 0.413, 0.422, 0.447),
        "etth2": (0.274, 0.341, 0.329, 0.379),
        "ettm1": (0.293, 0.333, 0.369, 0.416),
        "electricity": (0.129, 0.147, 0.163, 0.197),
    },
    "DLinear (2023)": {
        "etth1": (0.375, 0.405, 0.439, 0.472),
        "etth2": (0.289, 0.383, 0.448, 0.605),
        "ettm1": (0.299, 0.335, 0.369, 0.425),
        "electricity": (0.140, 0.153, 0.169, 0.203),
    },
    "iTransformer (2024)": {
        "etth1": (0.386, 0.441, 0.487, 0.503),
        "etth2": (0.297, 0.380, 0.428, 0.427),
        "ettm1": (0.334, 0.377, 0.426, 0.491),
        "electricity": (0.148, 0.162, 0.178, 0.225),
    },
    "Informer, as those papers quote it": {
        "etth1": (0.865, 1.008, 1.107, 1.181),
        "etth2": (3.755, 5.602, 4.721, 3.647),
        "ettm1": (0.672, 0.795, 1.212, 1.166),
        "electricity": (0.274, 0.296, 0.300, 0.373),
    },
}
"""Test MSE for the horizons 96, 192, 336 and 720, all columns from all, from the tables of each paper."""

_INFORMER = {
    ("etth1", "M"): ((0.577, 0.549), (0.685, 0.625), (0.931, 0.752), (1.128, 0.873), (1.215, 0.896)),
    ("etth2", "M"): ((0.720, 0.665), (1.457, 1.001), (3.489, 1.515), (2.723, 1.340), (3.467, 1.473)),
    ("etth1", "S"): ((0.098, 0.247), (0.158, 0.319), (0.183, 0.346), (0.222, 0.387), (0.269, 0.435)),
    ("etth2", "S"): ((0.093, 0.240), (0.155, 0.314), (0.232, 0.389), (0.263, 0.417), (0.277, 0.431)),
}
INFORMER: dict[tuple[str, str, int], tuple[float, float]] = {
    (data, features, horizon): scores
    for (data, features), row in _INFORMER.items()
    for horizon, scores in zip(PAPER_HORIZONS, row, strict=True)
}
"""The Informer's test MSE and MAE by data set, features and horizon: its authors' revised tables (Zhou et al. 2021)."""
