"""Expert dispatch: each token goes through the one expert that its route names, up to K tokens an expert.

The heart of a mixture-of-experts block. Its variable form loops over the experts that were hit; one static
rewrite gives every expert K places and lays the tokens out in them, the other fetches each token its weights.

Contract, for every variant:

- tokens `[N, D]`, gates `[N]` and weights `[E, D, D]`, floating, of one dtype; routes `[N]`, int64 in [0, E);
- the answer `[N, D]` in their dtype is gate * (token @ weights[route]);
- an expert takes its first K tokens, K being its capacity; the answer of a token beyond is 0, and the block's
  residual connection carries it. With K = N nothing is dropped.

Tolerance: that of a sum of D terms (`models.judge.rounding`), relative to the same product of absolute values.

Sources: Fedus, Zoph, Shazeer 2021, Switch Transformers (capacity, dropped tokens); huggingface/transformers#40114
(the loop over hit experts); gpt-fast's mixtral-moe (weights fetched by token).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from models.case import Fault, Workload
from models.judge import differences, dtype_named, parts, rounding, share

CASE = {
    "title": "mixture-of-experts dispatch, top 1, with capacity",
    "source": "Switch Transformers; huggingface/transformers#40114; gpt-fast mixtral-moe",
    "variants": {
        "hit_experts": {"class_name": "HitExperts", "kind": "variable"},
        "capacity": {"class_name": "Capacity", "kind": "static", "rewrites": "hit_experts"},
        "fetched": {"class_name": "Fetched", "kind": "static", "rewrites": "hit_experts"},
    },
    "sizes": {
        "quick": [256, 1_024, 4_096],
        "full": [256, 1_024, 4_096, 16_384, 65_536],
        "items_per_sample": 4,
        "batches": [None],
    },
}

EXPERTS = 8


class HitExperts(nn.Module):
    """The variable form: for each expert that was hit, its tokens by `nonzero`, cut to the capacity."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, tokens: Tensor, routes: Tensor, gates: Tensor, weights: Tensor) -> Tensor:
        answers = torch.zeros_like(tokens)
        for expert in routes.unique().tolist():
            rows = torch.nonzero(routes == expert).squeeze(1)[: self.k]
            answers[rows] = gates[rows].unsqueeze(1) * (tokens[rows] @ weights[expert])
        return answers


class Capacity(nn.Module):
    """The static form: E times K places, one batched product, and back. A token that does not fit goes to a
    spare place of its own, so that no two are written to one."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, tokens: Tensor, routes: Tensor, gates: Tensor, weights: Tensor) -> Tensor:
        (n, width), experts = tokens.shape, weights.shape[0]
        turn = turns(routes, experts)
        fits = turn < self.k
        spare = experts * self.k + torch.arange(n, device=routes.device)
        place = torch.where(fits, routes * self.k + turn, spare).unsqueeze(1).expand(n, width)
        places = tokens.new_zeros(experts * self.k + n, width).scatter(0, place, tokens)
        full = places[: experts * self.k].reshape(experts, self.k, width)
        products = torch.bmm(full, weights).reshape(experts * self.k, width)
        answers = products.gather(0, place.clamp(max=experts * self.k - 1))
        return torch.where(fits.unsqueeze(1), gates.unsqueeze(1) * answers, 0.0)


class Fetched(nn.Module):
    """The static form for few tokens or small experts: `weights[routes]` is `[N, D, D]`."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, tokens: Tensor, routes: Tensor, gates: Tensor, weights: Tensor) -> Tensor:
        fits = turns(routes, weights.shape[0]) < self.k
        answers = torch.einsum("nd,ndf->nf", tokens, weights[routes])
        return torch.where(fits.unsqueeze(1), gates.unsqueeze(1) * answers, 0.0)


def turns(routes: Tensor, experts: int) -> Tensor:
    """How many earlier tokens `[N]` int64 have the same route."""
    chosen = (routes.unsqueeze(1) == torch.arange(experts, device=routes.device)).to(torch.int64)
    return (chosen.cumsum(0) - 1).gather(1, routes.unsqueeze(1)).squeeze(1)


def inputs(workload: Workload, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, routes, gates and weights; the share of positives is the share of experts that are hit."""
    assert workload.n is not None
    generator = torch.Generator().manual_seed(seed)
    hit = max(1, round(EXPERTS * share(workload.positives, seed, generator)))
    experts = torch.randperm(EXPERTS, generator=generator)[:hit]
    routes = experts[torch.randint(0, hit, (workload.n,), generator=generator)]
    return _with_routes(workload, routes, generator)


def more_inputs(workload: Workload) -> Iterator[tuple[str, tuple[Tensor, Tensor, Tensor, Tensor]]]:
    """All tokens to one expert (the first, the last), all experts hit alike, one hit by a single token, exactly
    the capacity and one more."""
    assert workload.n is not None and workload.k is not None
    generator = torch.Generator().manual_seed(1)
    place = torch.arange(workload.n)
    sets = [
        ("all to the first", torch.zeros_like(place)),
        ("all to the last", torch.full_like(place, EXPERTS - 1)),
        ("all experts alike", place % EXPERTS),
        ("one token apart", torch.where(place == workload.n - 1, 2, 5)),
        ("exactly the capacity", torch.where(place < workload.k, 3, 4 + place % 4)),
        ("one over the capacity", torch.where(place < workload.k + 1, 3, 4 + place % 4)),
    ]
    for name, routes in sets:
        yield name, _with_routes(workload, routes, generator)


def faults(arguments: tuple[Tensor, ...], outputs: Tensor | tuple[Tensor, ...], workload: Workload) -> list[Fault]:
    """What the answers break of the contract, against one float64 product an expert over a list of its tokens."""
    assert workload.k is not None
    tokens, routes, gates, weights = (argument.cpu() for argument in arguments[:4])
    queues: dict[int, list[int]] = {}
    for token, route in enumerate(routes.tolist()):
        queues.setdefault(route, []).append(token)
    truth = torch.zeros(tokens.shape, dtype=torch.float64)
    size = torch.zeros(tokens.shape, dtype=torch.float64)
    for expert, queue in queues.items():
        rows = queue[: workload.k]
        weighted = gates[rows].double().unsqueeze(1) * tokens[rows].double()
        truth[rows] = weighted @ weights[expert].double()
        size[rows] = weighted.abs() @ weights[expert].double().abs()
    (answers,) = parts(outputs)
    tolerance = rounding(tokens.dtype, tokens.shape[1]) * size
    return differences("the answers", answers, truth.to(tokens.dtype), tolerance)


def floor_bytes(workload: Workload) -> int:
    """Tokens, routes, gates and the weights of the experts hit read once, answers written."""
    assert workload.n is not None and workload.dim is not None
    width = dtype_named(workload.dtype).itemsize
    hit = max(1, round(EXPERTS * share(workload.positives, 0, torch.Generator())))
    token = 2 * workload.dim * width + width + torch.int64.itemsize
    return workload.n * token + hit * workload.dim**2 * width


def _with_routes(
    workload: Workload, routes: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    assert workload.n is not None and workload.dim is not None
    dtype = dtype_named(workload.dtype)
    tokens = torch.randn(workload.n, workload.dim, generator=generator)
    gates = torch.rand(workload.n, generator=generator)
    weights = torch.randn(EXPERTS, workload.dim, workload.dim, generator=generator) / workload.dim**0.5
    return tokens.to(dtype), routes, gates.to(dtype), weights.to(dtype)
