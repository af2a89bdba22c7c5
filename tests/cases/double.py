"""The simplest case: a fixed one with one variable and one static variant that give the same."""

import torch
from torch import nn

CASE = {"id": "double", "source": "ours"}


class Dynamic(nn.Module):
    def forward(self, x):
        return x[x > -1] * 2


class Static(nn.Module):
    def forward(self, x):
        return x * 2


def example_inputs():
    return (torch.arange(4, dtype=torch.float32),)


EXPECTED = {"Dynamic": [[0.0, 2.0, 4.0, 6.0]], "Static": [[0.0, 2.0, 4.0, 6.0]]}
