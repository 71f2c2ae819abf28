"""Time and memory of attention types: compared with fused softmax and published ProbSparse, and by length."""

from dataclasses import asdict
from typing import Any

import torch

from cpu.published import published_probsparse
from forecast.attention.probsparse import probsparse_attention
from forecast.cli.compose import compose_config
from forecast.reports.colours import ATTENTION_TYPES
from forecast.tools.benchmark.measurement import Work, fit_growth, measure_cases, time_in_turn

Row = dict[str, Any]
EFFICIENT_TYPES = [name for name in ATTENTION_TYPES if name not in ("full", "uniform", "none")]
EFFICIENT = f"attention_types=[{','.join(EFFICIENT_TYPES)}]"
HEADS, HEAD_DIM, TOKENS = 8, 64, 4096


def against_fused_softmax(role: str, lengths: list[int], repeats: int) -> list[Row]:
    """Time forward and backward of the mixing. A batch has `TOKENS` tokens, or one longer sequence."""
    rows = []
    for length in lengths:
        config = compose_config(
            "benchmark.part=mixing", f"benchmark.role={role}", f"benchmark.lengths=[{length}]",
            f"benchmark.tokens={max(TOKENS, length)}", f"repeats={repeats}", "memory=false",
            config_name="benchmark",
        )  # fmt: skip
        found = [row for row in measure_cases(config, "cpu") if row["backward"]]
        full = next(row["median"] for row in found if row["attention"] == "full")
        rows += [{**row, "role": role, "times_full": full / row["median"]} for row in found]
    return rows


def against_published(lengths: list[int], repeats: int) -> list[Row]:
    """Time forward and backward of ProbSparse with each sampling, and of the published algorithm."""
    rows = []
    for length in lengths:
        shape = (max(1, TOKENS // length), HEADS, length, HEAD_DIM)
        q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
        gradient = torch.randn(shape)

        def work(attend, q=q, k=k, v=v, gradient=gradient) -> Work:
            return lambda: torch.autograd.grad(attend(q, k, v), (q, k, v), gradient)

        works = {
            "published": work(lambda q, k, v: published_probsparse(q, k, v, factor=5)),
            "shared": work(lambda q, k, v: probsparse_attention(q, k, v, random=True)),
            "per_query": work(lambda q, k, v: probsparse_attention(q, k, v, random=True, sampling="per_query")),
        }  # fmt: skip
        spreads = time_in_turn(list(works.values()), repeats)
        published = spreads[0].median
        for form, spread in zip(works, spreads, strict=True):
            rows.append(
                {
                    "length": length,
                    "form": form,
                    **asdict(spread),
                    "times_published": published / spread.median,
                }
            )
    return rows


def growth_with_length(lengths: list[int], repeats: int) -> dict[str, list[Row]]:
    """Measure time and peak memory of one sequence by length, and fit their exponents."""
    config = compose_config(
        EFFICIENT, "benchmark.part=mixing", f"benchmark.lengths={lengths}", f"benchmark.tokens={max(lengths)}",
        f"repeats={repeats}", config_name="benchmark",
    )  # fmt: skip
    rows = [row for row in measure_cases(config, "cpu") if row["backward"]]
    return {"rows": rows, "growth": fit_growth(rows)}


def long_window(length: str) -> list[Row]:
    """Measure peak memory and time of one training step of `model=informer` on one very long window."""
    config = compose_config(
        EFFICIENT, "benchmark=model", f"benchmark.lengths=[{length}]", "benchmark.batch_size=1", "repeats=1",
        config_name="benchmark",
    )  # fmt: skip
    return [row for row in measure_cases(config, "cpu") if row["backward"]]
