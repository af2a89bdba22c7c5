"""A compiler that meets a full disk while it works on this module."""

import torch
from torch import nn

CASE = {"id": "no_room", "source": "ours"}


class Static(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling():
            raise OSError(28, "No space left on device")
        return x * 2


def example_inputs():
    return (torch.arange(4.0),)
