"""Answers of nothing but zeros, NaN or no elements; and some that only look so."""

import torch
from torch import nn

CASE = {"mutates_input": True}


class Never(nn.Module):
    def forward(self, x):
        return x > 100


class NotANumber(nn.Module):
    def forward(self, x):
        return x[x > 100].mean()


class Empty(nn.Module):
    def forward(self, x):
        return x[:0]


class Number(nn.Module):
    def forward(self, x):
        return 0, x[:0]


class Nothing(nn.Module):
    def forward(self, x):
        return None


class Writes(nn.Module):
    """What it leaves in its input can be compared."""

    def forward(self, x):
        x.add_(1)


class Beside(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x), x + 1


class OnlyTheExample(nn.Module):
    def forward(self, x):
        return torch.relu(x - 4)


def example_inputs():
    return (torch.tensor([1.0, 2.0, 3.0]),)


def more_inputs():
    return [(torch.tensor([1.0, 2.0, 5.0]),)]
