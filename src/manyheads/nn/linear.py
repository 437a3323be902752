"""nn.Linear through `ops.linear`."""

from torch import Tensor, nn

from manyheads.ops.linear import linear


class Linear(nn.Linear):
    """x Wᵀ + b, quick with few rows too; `rows` takes a part of the output."""

    def forward(self, input: Tensor, rows: tuple[int, int] | None = None) -> Tensor:
        return linear(input, self.weight, self.bias, rows)

    def part(self, *, rows: list[int] | None = None, columns: list[int] | None = None) -> "Linear":
        """A smaller one, with these rows of the matrix, or these columns."""
        weight = self.weight.detach()
        weight = weight if rows is None else weight[rows]
        weight = weight if columns is None else weight[:, columns]
        part = Linear(weight.shape[1], weight.shape[0], bias=self.bias is not None, device="meta")
        part.weight = nn.Parameter(weight.clone(), requires_grad=self.weight.requires_grad)
        if self.bias is not None:
            bias = self.bias.detach()
            part.bias = nn.Parameter(bias.clone() if rows is None else bias[rows], self.bias.requires_grad)
        return part
