"""Fastformer's additive attention: two poolings and element-wise products instead of pairs of positions.

    α = softmax(w_q·q_i/√E)    global query  g = Σ α_i q_i
    p_i = g ∘ k_i
    β = softmax(w_k·p_i/√E)    global key    h = Σ β_i p_i
    u_i = h ∘ v_i              output        W u + Q

Cost: n·E time and memory. `interaction` replaces the product p = g ∘ k by g + k or by a linear layer of [g; k]. Causal:
both poolings run over the prefix of each position, and p_i uses the global query of the prefix of i.

Source: Wu et al. 2021, "Fastformer: Additive Attention Can Be All You Need", section 3; sections 4.4 and 4.5 for the
interactions and the shared parameters.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import Attention, Curves, Tokens, check_choice
from forecast.attention.full import short_softmax_attention
from forecast.attention.prefix_sums import running_softmax_pool

INTERACTIONS = ("product", "add", "concat")


def additive_attention(
    q: Tokens,
    k: Tokens,
    v: Tokens,
    *,
    query_logit: Float[Tensor, "heads head_dim"],
    key_logit: Float[Tensor, "heads head_dim"],
    causal: bool = False,
    interaction: str = "product",
    concat_weight: Float[Tensor, "heads head_dim twice"] | None = None,
) -> Tokens:
    """Compute h ∘ v, without W and + Q. Only the interaction concat takes `concat_weight`, which maps [g; k] to E."""
    check_choice("fastformer interaction", interaction, INTERACTIONS)
    if (concat_weight is not None) != (interaction == "concat"):
        given = "without" if concat_weight is None else "with"
        raise ValueError(f"interaction {interaction!r} {given} a concat_weight: concat needs one, the others take none")
    pool = running_softmax_pool if causal else _softmax_pool
    return pool(_interact(pool(q, query_logit), k, interaction, concat_weight), key_logit) * v


def _interact(
    query: Float[Tensor, "batch heads some_length head_dim"],
    k: Tokens,
    interaction: str,
    concat_weight: Float[Tensor, "heads head_dim twice"] | None,
) -> Tokens:
    """Compute p from the global query (of each position if causal) and the keys."""
    if concat_weight is not None:
        from_query, from_key = concat_weight.chunk(2, dim=-1)
        return query @ from_query.mT + k @ from_key.mT
    return query * k if interaction == "product" else query + k


def _pool_weights(x: Tokens, logit: Float[Tensor, "heads head_dim"]) -> Float[Tensor, "batch heads length"]:
    """Compute softmax(w·x_i/√E) over all positions: the weights of the pooling, and of its last row if causal."""
    return ((x @ logit[..., None]).squeeze(-1) * x.shape[3] ** -0.5).softmax(-1)


def _softmax_pool(x: Tokens, logit: Float[Tensor, "heads head_dim"]) -> Float[Tensor, "batch heads 1 head_dim"]:
    """Compute Σ softmax(w·x_i/√E) x_i: an attention call with the single query w."""
    row = logit[:, None].to(x.dtype).expand(x.shape[0], -1, -1, -1)
    return short_softmax_attention(row, x, x)


class FastformerAttention(Attention):
    """Additive attention: a global query, a global key, and the query itself added to the output.

    Args:
        interaction: product, add or concat.
        share_heads: pool with the same vectors in all heads.
        share_query_value: use the projection of Q for V, as in the paper.

    Raises ValueError: see `Attention`; or the interaction is unknown.
    """

    roles = frozenset({"self", "causal"})

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        interaction: str = "product",
        share_heads: bool = False,
        share_query_value: bool = True,
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout, share_query_value=share_query_value)
        check_choice("fastformer interaction", interaction, INTERACTIONS)
        self.interaction = interaction
        heads, width = 1 if share_heads else n_heads, self.head_dim
        self.query_logit = nn.Parameter(torch.randn(heads, width) * width**-0.5)
        self.key_logit = nn.Parameter(torch.randn(heads, width) * width**-0.5)
        self.concat_weight = None
        if interaction == "concat":
            bound = (2 * width) ** -0.5  # PyTorch's initialisation of a linear layer
            self.concat_weight = nn.Parameter(torch.empty(heads, width, 2 * width).uniform_(-bound, bound))

    def describe(self, q: Tensor, k: Tensor) -> list[Curves]:
        query_logit, key_logit, concat_weight = self._head_weights()
        pool = running_softmax_pool if self.role == "causal" else _softmax_pool
        pairs = _interact(pool(q, query_logit), k, self.interaction, concat_weight)
        readers = "the last position, which reads every step" if self.role == "causal" else "all positions"
        caption = (
            "α is the weight of each step in the global query, β its weight in the global key. These are the poolings "
            f"of {readers}."
        )
        values = {
            "α, pooling the queries": _pool_weights(q, query_logit),
            "β, pooling the keys": _pool_weights(pairs, key_logit),
        }
        return [Curves("poolings", caption, values)]

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        query_logit, key_logit, concat_weight = self._head_weights()
        return additive_attention(
            q,
            k,
            v,
            query_logit=query_logit,
            key_logit=key_logit,
            causal=self.role == "causal",
            interaction=self.interaction,
            concat_weight=concat_weight,
        )

    def _head_weights(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Expand the weights that the heads share."""
        concat_weight = self.concat_weight
        if concat_weight is not None:
            concat_weight = concat_weight.expand(self.n_heads, -1, -1)
        query_logit, key_logit = self.query_logit, self.key_logit
        return query_logit.expand(self.n_heads, -1), key_logit.expand(self.n_heads, -1), concat_weight

    def project_out(self, mixed: Tensor, query: Tensor) -> Tensor:
        return self.out_projection(mixed) + query.transpose(1, 2).flatten(2)
