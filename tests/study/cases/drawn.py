"""Random draws of several kinds: with noise, without repeats, of a size that is drawn, beside what is not."""

import torch
from torch import nn

CASE = {"random": True}


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


class Normal(nn.Module):
    def forward(self, x):
        return torch.randn(x.shape[0])


class Shuffle(nn.Module):
    def forward(self, x):
        return torch.randperm(12), x


class Rows(nn.Module):
    def forward(self, x):
        return x[torch.randperm(x.shape[0])]


class Coins(nn.Module):
    def forward(self, x):
        return torch.rand(12) < 0.25


class SomeOf(nn.Module):
    """As many as are drawn."""

    def forward(self, x):
        return x[torch.rand(x.shape[0]) < 0.5]


class Rarely(nn.Module):
    """Hardly ever something else."""

    def forward(self, x):
        return x + (torch.rand(()) < 0.05), torch.rand(3)


class Seldom(nn.Module):
    """One of eight answers is another."""

    def forward(self, x):
        return x + 1 + (torch.rand(()) < 0.125)


class Never(nn.Module):
    """Draws what does not show: as one does that shows once in a million calls."""

    def forward(self, x):
        return x + (torch.rand(()) < 0)


class GivenNoise(nn.Module):
    def forward(self, x, noise):
        return x + noise


def example_inputs():
    return (torch.arange(8, dtype=torch.float32),)


def given_noise_inputs():
    return torch.zeros(4), torch.full((4,), 0.5)
