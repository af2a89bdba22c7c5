"""A fault of torch 2.13's Inductor on the CPU: elements of a partial last row are never written.

`Dynamic` stacks a quotient and a remainder by 32 of 1000 numbers; `Static` computes the same from a constant.
"""

import torch
from torch import nn

CASE = {"id": "partial_rows", "source": "found while the partition sampler was made"}


class Dynamic(nn.Module):
    def forward(self, x):
        i = torch.arange(1000, dtype=torch.int32)
        return torch.stack([i // 32, i % 32]) + x


class Static(nn.Module):
    def __init__(self):
        super().__init__()
        i = torch.arange(1000, dtype=torch.int32)
        self.register_buffer("cells", torch.stack([i // 32, i % 32]))

    def forward(self, x):
        return self.cells + x


def example_inputs():
    return (torch.ones(1, dtype=torch.int32),)
