"""Modules that write into themselves: their answers change from call to call, and nothing is drawn."""

import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x + self.calls, x * 2


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


class Hidden(nn.Module):
    """A buffer that `state_dict` does not show."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Remembered(nn.Module):
    """A plain attribute that each call replaces."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(3, 4)

    def forward(self, x):
        last, self.last = self.last, x
        return x + last


class Number(nn.Module):
    """A Python number."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls, self.calls


class Late(nn.Module):
    """The state shows in the answers after some calls only."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.where(self.calls > 3, x * 10, x)


class Cache(nn.Module):
    """Writes where its input says: the example leaves what it found after its first call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x):
        self.rows.copy_(torch.where(x > 2, x, self.rows))
        return self.rows * 1


class Drawing(nn.Module):
    """Counts its calls and draws besides."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x + self.calls, x + torch.rand(x.shape)


EXPECTED = {"Number": [[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]], 1]}


def example_inputs():
    return (torch.arange(12.0).reshape(3, 4),)


def more_inputs():
    return [(torch.full((3, 4), 2.5),), (torch.arange(12.0).reshape(3, 4) - 6,)]
