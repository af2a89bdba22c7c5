"""A dimension that is meant to vary."""

import torch
from torch import nn


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def example_inputs():
    return (torch.arange(12.0).reshape(4, 3),)


def dynamic_dims():
    return ({0: "n"},)


def more_inputs():
    return [(torch.ones(5, 3),)]


EXPECTED = {"Doubled": [[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0], [12.0, 14.0, 16.0], [18.0, 20.0, 22.0]]]}
EXPECTED_SHAPES = {"Doubled": [[4, 3]]}
EXPECTED_DTYPES = {"Doubled": ["float32"]}
