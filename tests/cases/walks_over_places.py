"""Python walks over places that only the data know: Dynamo meets it inside torch's own symbolic shapes, and raises an
error that is not Dynamo's."""

import torch
from torch import nn


class Walk(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        for place in torch.nonzero(x > 0).flatten().tolist():
            total = total + x[place]
        return total


def example_inputs():
    return (torch.tensor([1.0, 3.0, 2.0, -5.0]),)


def more_inputs():
    return [(torch.tensor([2.0, 3.0, 1.0, 4.0]),), (torch.tensor([2.0, 1.0, 1.0, 4.0]),)]
