"""What eager does without drawing: floats, integers, ties, NaN, nothing at all, nests, views, writes."""

from typing import NamedTuple

import torch
from torch import nn


class Pair(NamedTuple):
    values: torch.Tensor
    rest: torch.Tensor


class Floats(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        return torch.softmax(self.inner(x), -1)


class Moved(nn.Module):
    def forward(self, x):
        return x.flip(0)


class Integers(nn.Module):
    def forward(self, x):
        return (x * 2**40).long() + 2**53 + 1, x > 0


class Ties(nn.Module):
    def forward(self, x):
        return torch.topk(x.round(), 3).values, torch.topk(torch.zeros(5), 3).indices * 0 + 1


class Nothing(nn.Module):
    def forward(self, x):
        return x[x > 100], torch.full((2,), float("nan"))


class Zeros(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


class Nested(nn.Module):
    def forward(self, x):
        return {"pair": (x + 1, None), "list": [x * 2, 3], "flag": True}


class Named(nn.Module):
    def forward(self, x):
        return torch.sort(x)


class Views(nn.Module):
    """Outputs that are the input, a view of it, an expansion, and the module's own parameter."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        return x, x[1:], x[:1].expand(4, 6), self.table, self.table.expand(2, 3)


class Counted(nn.Module):
    """Differs from call to call without a random draw, too little to matter."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + 1e-9 * self.calls


def example_inputs():
    return (torch.linspace(-2.0, 3.0, 18).reshape(3, 6),)


def more_inputs():
    return [(torch.zeros(3, 6),), (torch.full((3, 6), float("inf")),)]
