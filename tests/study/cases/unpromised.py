"""Another size among the further inputs, and no dimension declared that may vary."""

import torch
from torch import nn


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def example_inputs():
    return (torch.arange(12.0).reshape(4, 3),)


def more_inputs():
    return [(torch.ones(5, 3),), (torch.ones(6, 3),)]
