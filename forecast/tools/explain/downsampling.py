"""Attention maps as means of blocks, small enough to draw."""

import numpy as np
from jaxtyping import Float

MAX_PIXELS = 500
"""Largest number of pixels of a map along one axis; larger maps are drawn as means of blocks."""


def block_size(length: int) -> int:
    """Number of positions in a pixel."""
    return -(-length // MAX_PIXELS)


def shrink_map(
    image: Float[np.ndarray, "query_len memory_len"], *, causal: bool = False
) -> Float[np.ndarray, "rows columns"]:
    """Means of blocks, at most `MAX_PIXELS` along each axis; NaN above the diagonal of a causal map."""
    edges = [np.arange(0, length, block_size(length)) for length in image.shape]
    sums = np.add.reduceat(np.add.reduceat(image, edges[0], axis=0), edges[1], axis=1)
    sizes = [np.diff(e, append=length) for e, length in zip(edges, image.shape, strict=True)]
    small = sums / np.outer(*sizes)
    if causal:
        last = edges[0] + sizes[0] - 1
        small[edges[1] > last[:, None]] = np.nan
    return small
