"""A draw without replacement, and one that loses the "without" in eager itself."""

import torch
from torch import nn

CASE = {"random": True, "distinct": True}


class Without(nn.Module):
    def forward(self, weights):
        return torch.multinomial(weights, 4, replacement=False)


class With(nn.Module):
    def forward(self, weights):
        return torch.multinomial(weights, 4, replacement=True)


class Frozen(nn.Module):
    def forward(self, weights):
        return torch.arange(4)


def example_inputs():
    return (torch.full((12,), 0.5),)
