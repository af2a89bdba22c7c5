"""A fault of OpenVINO 2026.4: part of what follows a draw is worked out once, from numbers drawn at compile time.

A number less its multiple of 1000 lies in 0 to 999, whatever is drawn. In `Dynamic` the multiple that OpenVINO
subtracts is a constant; in `Static`, where the drawn numbers meet an input first, it is not.
"""

import torch
from torch import nn

CASE = {"id": "drawn_remainder", "source": "found while the partition sampler was made"}


def outside(value):
    """How far a number less its multiple of 1000 lies outside 0 to 999: 0 wherever it is right."""
    rest = value - value // 1000 * 1000
    return rest - rest.clamp(0, 999)


class Dynamic(nn.Module):
    def forward(self, x):
        drawn = (torch.rand(4, 1) * 1000).to(torch.int32)
        return outside(drawn * torch.arange(50, dtype=torch.int32) + drawn) + x


class Static(nn.Module):
    def forward(self, x):
        drawn = (torch.rand(4, 1) * 1000).to(torch.int32) * x
        return outside(drawn * torch.arange(50, dtype=torch.int32) + drawn) + x


def example_inputs():
    return (torch.ones(1, dtype=torch.int32),)
