"""Comparison by meaning: what an answer must share with eager's to be the same answer.

Shape and dtype come first. Integers and booleans are compared exactly, in their own dtype. Floats may differ
from eager, or from a float64 run of eager, by the tolerance of their dtype; they are compared exactly where
eager only moves values of its inputs. NaN equals NaN at the same place, infinity its own sign. Indices
that differ are a tie where they are distinct and point, in an input, to the very values of another output.

Outputs may be anything that torch.export accepts. Engines return flat lists of tensors, so: a backend's
outputs are compared leaf by leaf if they are flat or nested as eager's; None may be left out; a Python
number may come back as a tensor of one element.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from models.case import Fault

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCES: dict[str, tuple[float, float]] = {
    # dtype: (relative, absolute)
    "float64": (1e-9, 1e-12),
    "float32": (5e-5, 1e-5),
    "bfloat16": (2e-2, 1e-2),
    "float16": (2e-3, 1e-3),
    "float8_e4m3fn": (1.3e-1, 2e-2),
    "float8_e5m2": (2.5e-1, 4e-2),
}
"""|answer - eager| may be absolute + relative * |eager|. Where eager itself is that far from its float64 run,
the allowance grows to four times eager's own distance, at most `WIDEST` fold."""

WIDEST = 64.0

MOVED_LIMIT, MOVED_TRIES = 1 << 17, 4
"""Inputs of more elements are not searched for the values of an output; and how often they are."""


@dataclass
class Tally:
    """What comparisons covered: elements compared, indices that differ by ties, the largest error of a float
    in units of its tolerance, and per output leaf whether eager ever gave more than zeros, NaN or nothing."""

    elements: int = 0
    ties: int = 0
    largest_error: float = 0.0
    informative: dict[int, bool] = field(default_factory=dict)

    @property
    def is_informative(self) -> bool:
        """Whether any output of eager could have shown a difference from an engine that gives nothing."""
        return any(self.informative.values())

    def facts(self, drawn: frozenset[int] = frozenset()) -> dict[str, Any]:
        """The leaves in `drawn` are judged by their draws, not here."""
        facts: dict[str, Any] = {"elements": self.elements, "largest_error": round(self.largest_error, 4)}
        if self.ties:
            facts["ties"] = self.ties
        if silent := [leaf for leaf, informative in self.informative.items() if not (informative or leaf in drawn)]:
            facts["uninformative_outputs"] = silent
        return facts


def leaves(tree: Any) -> list[Any]:
    """The tensors, numbers and strings of nested outputs or inputs, in order; None is left out, arrays
    become tensors."""
    import numpy
    import torch
    from torch.utils._pytree import tree_leaves

    return [
        torch.as_tensor(leaf) if isinstance(leaf, (numpy.ndarray, numpy.generic)) else leaf
        for leaf in tree_leaves(tree)
        if leaf is not None
    ]


def clone(tree: Any) -> Any:
    """A copy of nested tensors that shares no memory with them; detached. It keeps their strides, and one tensor
    twice is one tensor twice: both are part of what a caller hands over."""
    import torch
    from torch.utils._pytree import tree_map

    copies: dict[int, Tensor] = {}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:
            own = leaf.detach().clone()
            if own.layout == torch.strided and own.stride() != leaf.stride():  # it had gaps or several elements in one
                own = copy.deepcopy(leaf.detach())
            copies[id(leaf)] = own.requires_grad_(leaf.requires_grad and leaf.is_leaf)
        return copies[id(leaf)]

    return tree_map(copied, tree)


def compare(
    expected: Any,
    actual: Any,
    inputs: Any,
    tally: Tally,
    *,
    precise: Any = None,
    exact: frozenset[int] = frozenset(),
    skip: frozenset[int] = frozenset(),
) -> Fault | None:
    """The first difference of `actual` from eager's outputs `expected` for the arguments `inputs`, or None.

    `precise` are the outputs of a float64 run of eager, None where there is none. Floats of the leaves in
    `exact` have no tolerance. The leaves in `skip` are drawn: of them only dtype and number of dimensions are compared.
    """
    if fault := structure_fault(expected, actual, skip):
        return fault
    wanted, given = leaves(expected), leaves(actual)
    precise_leaves = leaves(precise) if precise is not None else []
    if len(precise_leaves) != len(wanted):
        precise_leaves = [None] * len(wanted)
    for number, (want, got) in enumerate(zip(wanted, given, strict=True)):
        if number in skip:
            continue
        fault = _leaf_fault(want, got, precise_leaves[number], number in exact, tally)
        if fault and (tied := _ties(number, wanted, given, inputs)):
            tally.ties += tied
            fault = None
        tally.informative[number] = tally.informative.get(number, False) or _informative(want)
        if fault:
            return Fault(fault.code, f"output {number}: {fault.text}")
    return None


def differing(first: Any, second: Any, *, exactly: bool) -> frozenset[int]:
    """Numbers of the leaves in which two runs of eager differ: at all, or by more than their tolerance."""
    pairs = list(zip(leaves(first), leaves(second), strict=True))
    return frozenset(
        number
        for number, (a, b) in enumerate(pairs)
        if not _identical(a, b)
        and (exactly or structure_fault(a, b) is not None or _leaf_fault(a, b, None, False, Tally()) is not None)
    )


def structure_fault(expected: Any, actual: Any, drawn: frozenset[int] = frozenset()) -> Fault | None:
    """What differs in number, nesting, shapes or dtypes of outputs, before any value is looked at.

    The shapes of the leaves in `drawn` may depend on the draw: only their number of dimensions is compared.
    """
    import torch
    from torch.utils._pytree import tree_structure

    wanted, given = leaves(expected), leaves(actual)
    if len(wanted) != len(given):
        return Fault("STRUCTURE.mismatch", f"{len(given)} outputs, where eager gives {len(wanted)}")
    if not _flat(actual) and tree_structure(actual) != tree_structure(expected):
        return Fault("STRUCTURE.mismatch", "the outputs are nested otherwise than eager's")
    for number, (want, got) in enumerate(zip(wanted, given, strict=True)):
        if isinstance(want, torch.Tensor):
            if not isinstance(got, torch.Tensor):
                return Fault("STRUCTURE.mismatch", f"output {number} is a {type(got).__name__}, in eager a tensor")
            if want.dim() != got.dim() or (want.shape != got.shape and number not in drawn):
                return Fault(
                    "SHAPE.mismatch", f"output {number} has shape {tuple(got.shape)}, in eager {tuple(want.shape)}"
                )
            if want.dtype != got.dtype:
                return Fault("DTYPE.mismatch", f"output {number} is {got.dtype}, in eager {want.dtype}")
        elif isinstance(got, torch.Tensor) and got.numel() != 1:
            return Fault(
                "STRUCTURE.mismatch",
                f"output {number} has shape {tuple(got.shape)}, in eager it is the {type(want).__name__} {want!r}",
            )
    return None


def identical(first: Any, second: Any) -> bool:
    """Whether two trees of the same structure hold the same values, NaN in the same places."""
    return all(_identical(a, b) for a, b in zip(leaves(first), leaves(second), strict=True))


def moved(eager: Callable[..., Any], inputs: tuple[Any, ...]) -> frozenset[int]:
    """The numbers of the floating outputs of which eager computes nothing: they are values of the inputs, also
    when the inputs' floats are others of the same signs."""
    import torch
    from torch.utils._pytree import tree_map

    def other(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return leaf * (0.5 + torch.rand(leaf.shape, device=leaf.device)).to(leaf.dtype)

    if sum(leaf.numel() for leaf in leaves(inputs) if isinstance(leaf, torch.Tensor)) > MOVED_LIMIT:
        return frozenset()
    found: frozenset[int] | None = None
    for _ in range(MOVED_TRIES):
        try:
            given = tree_map(other, clone(inputs))
            outputs = leaves(eager(*clone(given)))
        except Exception:  # nor may the module take other values, nor float8 arithmetic exist
            return frozenset()
        held = frozenset(number for number, leaf in enumerate(outputs) if _holds_only(leaf, given))
        found = held if found is None else found & held
    return found or frozenset()


def tolerance(dtype: Any) -> tuple[float, float]:
    """(relative, absolute) tolerance of a torch dtype; (0, 0) for what is compared exactly."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    name = str(dtype).removeprefix("torch.")
    return TOLERANCES.get(name, TOLERANCES["float8_e5m2"] if dtype.is_floating_point else (0.0, 0.0))


def _leaf_fault(want: Any, got: Any, precise: Any, exact: bool, tally: Tally) -> Fault | None:
    import torch

    if not isinstance(want, torch.Tensor):
        value = got.item() if isinstance(got, torch.Tensor) else got
        tally.elements += 1
        return None if _same_number(want, value) else Fault("VALUE.mismatch", f"{value!r}, in eager {want!r}")
    want, got = _plain(want), _plain(got).to(want.device)
    tally.elements += want.numel()
    if exact or not want.is_floating_point() or _identical(want, got):
        differs = ~_equal(want, got)
        return _difference(differs, want, got) if differs.any() else None
    relative, absolute = tolerance(want.dtype)
    reference, answer = want.double(), got.double()
    allowed = absolute + relative * reference.abs()
    references = [reference]
    if isinstance(precise, torch.Tensor) and _plain(precise).shape == want.shape:
        precise = _plain(precise).double()
        own = (reference - precise).abs()
        allowed = allowed * (4 * own / allowed).nan_to_num(1.0, 1.0, 1.0).clamp(1.0, WIDEST)
        references.append(precise)
    error = torch.stack([(answer - one).abs() for one in references]).nan_to_num(math.inf).amin(0)
    finite = reference.isfinite()
    right = torch.where(finite, error <= allowed, _equal(want, got))
    if finite.any():
        units = (error / allowed)[finite & right]
        tally.largest_error = max(tally.largest_error, float(units.max()) if units.numel() else 0.0)
    return None if right.all() else _difference(~right, want, got)


def _difference(differs: Tensor, want: Tensor, got: Tensor) -> Fault:
    place = differs.nonzero()[0]
    where = tuple(place.tolist())
    return Fault(
        "VALUE.mismatch",
        f"{int(differs.sum())} of {differs.numel()} elements differ; at {where} it is "
        f"{got[where].item()!r}, in eager {want[where].item()!r}",
    )


def _holds_only(output: Any, inputs: Any) -> bool:
    """Whether every value of a floating output is one of an input of the same dtype."""
    import torch

    if not isinstance(output, torch.Tensor) or not output.is_floating_point() or not output.numel():
        return False
    sources = [
        _plain(leaf).reshape(-1)
        for leaf in leaves(inputs)
        if isinstance(leaf, torch.Tensor) and leaf.dtype == output.dtype
    ]
    return bool(sources) and bool(torch.isin(_plain(output).double(), torch.cat(sources).double()).all())


def _ties(number: int, wanted: Sequence[Any], given: Sequence[Any], inputs: Any) -> int:
    """How many indices of leaf `number` differ only as ties do, 0 if they are no indices or are wrong.

    They are indices where some input, gathered at them along some dimension, is another output.
    """
    import torch

    want, got = wanted[number], given[number]
    if not isinstance(want, torch.Tensor) or want.dtype not in (torch.int64, torch.int32) or want.shape != got.shape:
        return 0
    got = got.to(want.device)
    for source in leaves(inputs):
        if not isinstance(source, torch.Tensor) or source.dim() not in (want.dim(), want.dim() + 1):
            continue
        for dimension in range(source.dim()):
            for other, values in enumerate(wanted):
                if (
                    other != number
                    and isinstance(values, torch.Tensor)
                    and (_points(source, dimension, want, values) and _points(source, dimension, got, given[other]))
                ):
                    return int((want != got).sum())
    return 0


def _points(source: Tensor, dimension: int, index: Tensor, values: Tensor) -> bool:
    if values.shape != index.shape:
        return False
    if index.dim() < source.dim():  # one index for the whole dimension, as of a median
        index, values = index.unsqueeze(dimension), values.unsqueeze(dimension)
    sizes = list(source.shape)
    sizes[dimension] = index.shape[dimension]
    if list(index.shape) != sizes or values.dtype != source.dtype:
        return False
    if index.numel() == 0 or index.min() < 0 or index.max() >= source.shape[dimension]:
        return False
    ordered = index.sort(dimension).values
    if (ordered.diff(dim=dimension) == 0).any():
        return False
    pointed = source.detach().to(index.device).gather(dimension, index.long())
    return bool(_equal(pointed, values.to(index.device)).all())


def _informative(want: Any) -> bool:
    import torch

    if not isinstance(want, torch.Tensor):
        return bool(want) and not _is_nan(want)
    plain = _plain(want)
    seen = plain != 0
    return bool((seen & ~plain.isnan()).any()) if plain.is_floating_point() else bool(seen.any())


def _same_number(want: Any, got: Any) -> bool:
    if isinstance(want, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        relative, absolute = TOLERANCES["float32"]
        return (_is_nan(want) and _is_nan(got)) or math.isclose(want, got, rel_tol=relative, abs_tol=absolute)
    return bool(want == got)


def _flat(outputs: Any) -> bool:
    """Whether outputs are one leaf, or a list or tuple of leaves."""
    from torch.utils._pytree import tree_leaves

    parts = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return all(len(found := tree_leaves(part)) == 1 and found[0] is part for part in parts)


def _plain(tensor: Tensor) -> Tensor:
    """A dense real view of a tensor, detached."""
    import torch

    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _equal(first: Tensor, second: Tensor) -> Tensor:
    same: Tensor = first == second
    return same | (first.isnan() & second.isnan()) if first.is_floating_point() else same


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _identical(first: Any, second: Any) -> bool:
    import torch

    if isinstance(first, torch.Tensor) != isinstance(second, torch.Tensor):
        return False
    if not isinstance(first, torch.Tensor):
        return bool(first == second) or (_is_nan(first) and _is_nan(second))
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    first, second = _plain(first), _plain(second).to(first.device)
    return torch.equal(first, second) or bool(_equal(first, second).all())
