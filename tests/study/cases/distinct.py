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


class WithLabels(nn.Module):
    """The labels may repeat."""

    def forward(self, weights):
        index = torch.multinomial(weights, 4, replacement=False)
        return index, index % 3


class Frozen(nn.Module):
    def forward(self, weights):
        return torch.arange(4)


class Seeded(nn.Module):
    """Moves the generator, to the same place in each call."""

    def forward(self, weights):
        torch.manual_seed(3)
        return torch.randperm(4)


def example_inputs():
    return (torch.full((12,), 0.5),)
