"""Steps in patches: tokens of several steps, and from a token its steps' values again (Nie et al. 2023, PatchTST)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class PatchEmbedding(nn.Module):
    """Each `patch_len` steps, a series' variables and the calendar of every step, as one token."""

    def __init__(self, n_features: int, d_calendar: int, d_model: int, *, patch_len: int) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.values = nn.Linear(patch_len * n_features, d_model)
        self.calendar = nn.Linear(patch_len * d_calendar, d_model, bias=False)

    def forward(
        self,
        values: Float[Tensor, "batch series length n_features"],
        calendar: Float[Tensor, "batch 1 length d_calendar"],
    ) -> Float[Tensor, "batch series tokens d_model"]:
        """`length` is a multiple of the patch's."""
        return self.values(self._patches(values)) + self.calendar(self._patches(calendar))

    def _patches(self, steps: Tensor) -> Tensor:
        return steps.unflatten(2, (-1, self.patch_len)).flatten(3)


class StepHead(nn.Module):
    """From a patch's token and each of its steps' own calendar to the step's values.

    y(step) = W gelu(A(step within its patch) token + B calendar(step)). A patch may begin at any hour; what an hour, a
    weekday or a holiday does is learnt once for all. W begins at zero: before training the head says nothing but, with
    quantiles, how far they lie apart.
    """

    def __init__(
        self, d_model: int, d_calendar: int, n_outputs: int, *, patch_len: int, hidden: int = 32
    ) -> None:
        super().__init__()
        self.patch_len = patch_len
        self.token = nn.Linear(d_model, patch_len * hidden)
        self.calendar = nn.Linear(d_calendar, hidden, bias=False)
        self.out = nn.Linear(hidden, n_outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        tokens: Float[Tensor, "batch series tokens d_model"],
        calendar: Float[Tensor, "batch 1 length d_calendar"],
    ) -> Float[Tensor, "batch series length n_outputs"]:
        steps = self.token(tokens).unflatten(3, (self.patch_len, -1)).flatten(2, 3)
        return self.out(F.gelu(steps + self.calendar(calendar)))
