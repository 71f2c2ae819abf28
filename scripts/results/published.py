"""Published test scores on scaled values, which docs/results.md shows for comparison."""

from results.cells import PAPER_HORIZONS

PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "DUET (2024)": {
        "etth1": (0.352, 0.398, 0.414, 0.429),
        "etth2": (0.270, 0.332, 0.353, 0.382),
        "ettm1": (0.279, 0.320, 0.348, 0.405),
        "electricity": (0.128, 0.145, 0.163, 0.193),
    },
    "PDF (2024)": {
        "etth1": (0.360, 0.392, 0.418, 0.456),
        "etth2": (0.276, 0.339, 0.374, 0.398),
        "ettm1": (0.286, 0.321, 0.354, 0.408),
        "electricity": (0.128, 0.147, 0.165, 0.199),
    },
    "PatchTST (2023)": {
        "etth1": (0.377, 0.409, 0.431, 0.457),
        "etth2": (0.274, 0.348, 0.377, 0.406),
        "ettm1": (0.289, 0.329, 0.362, 0.416),
        "electricity": (0.143, 0.158, 0.168, 0.214),
    },
    "FITS (2024)": {
        "etth1": (0.376, 0.400, 0.419, 0.435),
        "etth2": (0.277, 0.331, 0.350, 0.382),
        "ettm1": (0.303, 0.337, 0.368, 0.420),
        "electricity": (0.139, 0.154, 0.170, 0.212),
    },
    "iTransformer (2024)": {
        "etth1": (0.386, 0.424, 0.449, 0.495),
        "etth2": (0.297, 0.372, 0.388, 0.424),
        "ettm1": (0.300, 0.341, 0.374, 0.429),
        "electricity": (0.134, 0.154, 0.169, 0.194),
    },
    "TimeMixer (2024)": {
        "etth1": (0.372, 0.413, 0.438, 0.486),
        "etth2": (0.281, 0.349, 0.366, 0.401),
        "ettm1": (0.293, 0.335, 0.368, 0.426),
        "electricity": (0.153, 0.168, 0.189, 0.228),
    },
    "DLinear (2023)": {
        "etth1": (0.379, 0.408, 0.440, 0.471),
        "etth2": (0.300, 0.387, 0.490, 0.704),
        "ettm1": (0.300, 0.336, 0.367, 0.419),
        "electricity": (0.140, 0.154, 0.169, 0.204),
    },
    "Informer (2021)": {
        "etth1": (0.715, 0.726, 0.741, 0.772),
        "etth2": (0.362, 0.460, 0.454, 0.410),
        "ettm1": (0.419, 0.547, 0.654, 0.715),
        "electricity": (0.215, 0.263, 0.334, 0.502),
    },
}
"""Test MSE for the horizons 96, 192, 336 and 720, all columns from all: the OpenTS leaderboard of
TFB (Qiu et al. 2024), which counts every test window."""

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
