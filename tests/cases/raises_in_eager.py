"""A case whose variable form fails in eager itself."""

import torch
from torch import nn


class Dynamic(nn.Module):
    def forward(self, x):
        raise ValueError("this module has no answer")


class Static(nn.Module):
    def forward(self, x):
        return x + 1


def example_inputs():
    return (torch.ones(3),)
