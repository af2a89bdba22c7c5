"""Backends that are wrong on purpose, each in one way. Each takes a module and gives a callable that stands in
for a compiled one; verification must land each in its code."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

Call = Callable[..., Any]


def faithful(module: nn.Module) -> Call:
    return module


def flat(module: nn.Module) -> Call:
    """As engines answer: a flat list of tensors, None left out, numbers as tensors."""
    from torch.utils._pytree import tree_leaves

    return lambda *inputs: [torch.as_tensor(leaf) for leaf in tree_leaves(module(*inputs)) if leaf is not None]


def _after(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], Call]:
    """A backend that changes the first output of what the module answers."""

    def make(module: nn.Module) -> Call:
        def call(*inputs: Any) -> Any:
            outputs = module(*inputs)
            return change(outputs) if isinstance(outputs, Tensor) else (change(outputs[0]), *outputs[1:])

        return call

    return make


def _nudge(tensor: Tensor) -> Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[-1] += 1e-3 if tensor.is_floating_point() else 1
    return tensor


wrong_values = _after(_nudge)
wrong_shape = _after(lambda tensor: tensor[..., :-1])
wrong_dtype = _after(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor.int())


def missing_output(module: nn.Module) -> Call:
    return lambda *inputs: list(module(*inputs))[:-1]


def _seeded(next_seed: Callable[[int], int]) -> Callable[[nn.Module], Call]:
    def make(module: nn.Module) -> Call:
        calls = 0

        def call(*inputs: Any) -> Any:
            nonlocal calls
            calls += 1
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(next_seed(calls))
                return module(*inputs)

        return call

    return make


frozen_draw = _seeded(lambda call: 7)
cycling_draw = _seeded(lambda call: call % 3)


def seeded_at_load(module: nn.Module) -> Call:
    """Begins with the same draw after every load, as engines with a seed of their own do: no fault."""
    return _seeded(lambda call: call)(module)


def repeated_item(module: nn.Module) -> Call:
    """A sampler that now and then takes an item of the same class twice."""

    def call(*inputs: Tensor) -> Any:
        rows, labels = (output.clone() for output in module(*inputs))
        first = labels[..., :1] == labels[..., 1:2]
        rows[..., 1, :] = torch.where(first, rows[..., 0, :], rows[..., 1, :])
        return rows, labels

    return call


def biased_order(module: nn.Module) -> Call:
    """A sampler that gives the positives first."""

    def call(*inputs: Tensor) -> Any:
        rows, labels = module(*inputs)
        order = labels.argsort(dim=-1, descending=True, stable=True)
        return rows.gather(-2, order.unsqueeze(-1).expand_as(rows)), labels.gather(-1, order)

    return call


def biased_inclusion(module: nn.Module) -> Call:
    """A sampler that leaves the last third of the items out where the rest will do."""

    def call(features: Tensor, labels: Tensor, *noise: Tensor) -> Any:
        fewer = labels.clone()
        fewer[..., labels.shape[-1] * 2 // 3 :] = -1
        half = module.k // 2
        enough = ((fewer == 1).sum(-1) >= half).all() and ((fewer == 0).sum(-1) >= half).all()
        return module(features, fewer if enough else labels, *noise)

    return call


def rows_alike(module: nn.Module) -> Call:
    """A sampler that draws once for all rows of a batch."""

    def call(*inputs: Tensor) -> Any:
        with torch.random.fork_rng(devices=[]):
            seed = int(torch.randint(2**31, ()))
        torch.rand(1)
        samples = []
        for row in range(inputs[0].shape[0]):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                samples.append(module(*(given[row] for given in inputs)))
        return torch.stack([rows for rows, _ in samples]), torch.stack([labels for _, labels in samples])

    return call


def reused_output(module: nn.Module) -> Call:
    """Writes every answer into the buffers of the first."""
    buffers: dict[Any, Any] = {}

    def call(*inputs: Any) -> Any:
        outputs = module(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        key = tuple(output.shape for output in outputs)
        if key not in buffers:
            buffers[key] = tuple(output.clone() for output in outputs)
        for buffer, output in zip(buffers[key], outputs, strict=True):
            buffer.copy_(output)
        return list(buffers[key])

    return call


def changed_input(module: nn.Module) -> Call:
    def call(*inputs: Any) -> Any:
        outputs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, module(*inputs))
        inputs[0].view(-1)[:1] = 42
        return outputs

    return call


def poisoned_constant(module: nn.Module) -> Call:
    """Keeps its answers and hands out the kept ones themselves."""
    kept: dict[Any, Any] = {}

    def call(*inputs: Any) -> Any:
        key = tuple((tuple(given.shape), given.cpu().numpy().tobytes()) for given in inputs)
        if key not in kept:
            kept[key] = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, module(*inputs))
        return kept[key]

    return call


def returned_input(module: nn.Module) -> Call:
    """Gives its answer in the input's own memory."""

    def call(*inputs: Tensor) -> Any:
        copied = inputs[0].clone()
        outputs = module(*inputs)
        return inputs[0] if torch.equal(outputs, copied) else outputs

    return call


def specialised(module: nn.Module) -> Call:
    """Takes the shapes of its first call only."""
    first: list[Any] = []

    def call(*inputs: Tensor) -> Any:
        shapes = [given.shape for given in inputs]
        if not first:
            first.extend(shapes)
        if shapes != first:
            raise ValueError(f"expected {first}, got {shapes}")
        return module(*inputs)

    return call


def broken_by_refusing(module: nn.Module) -> Call:
    """Takes the shapes of its first call only, and nothing at all after it has refused others."""
    call, refused = specialised(module), False

    def broken(*inputs: Tensor) -> Any:
        nonlocal refused
        if refused:
            raise RuntimeError("a call before this one was refused")
        try:
            return call(*inputs)
        except ValueError:
            refused = True
            raise

    return broken


def silently_specialised(module: nn.Module) -> Call:
    """Answers other shapes with what its first call's shape would give."""
    first: list[int] = []

    def call(given: Tensor) -> Any:
        first.append(given.shape[0])
        return module(given[: first[0]])

    return call


def gives_up(module: nn.Module) -> Call:
    """Raises from its third call on."""
    calls = 0

    def call(*inputs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise RuntimeError("the engine gave up")
        return module(*inputs)

    return call


def replaced(answer: Callable[..., Any]) -> Callable[[nn.Module], Call]:
    """A backend that answers something else altogether."""
    return lambda module: answer


def forgetful(module: nn.Module) -> Call:
    """Every call begins from the state that the module was built with."""
    built = copy.deepcopy(module)
    return lambda *inputs: copy.deepcopy(built).forward(*inputs)
