"""Reference output of a Fastformer head, computed from the weights that `explain` draws."""

import torch
from torch import Tensor

from forecast.attention import FastformerAttention


def fastformer_answer(
    attention: FastformerAttention, head: int, q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, beta: Tensor
) -> Tensor:
    """(Σ_j β_j · p_j) ∘ v with p_j = (Σ_i α_i q_i) ∘ k_j, their sum or W [· ; ·]; of one head."""
    query = (alpha @ q).expand_as(k)
    if attention.concat_weight is not None:
        weight = attention.concat_weight.detach()
        mixed = torch.cat([query, k], dim=-1) @ weight[min(head, len(weight) - 1)].T
    else:
        mixed = {"product": torch.mul, "add": torch.add}[attention.interaction](query, k)
    return (beta @ mixed) * v
