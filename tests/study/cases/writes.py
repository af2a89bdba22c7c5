"""Writing into the input, declared."""

import torch
from torch import nn

CASE = {"mutates_input": True}


class Writes(nn.Module):
    def forward(self, x):
        x[x < 0] = 0
        return x + 1


def example_inputs():
    return (torch.tensor([1.0, -2.0, 3.0]),)
