"""The plan: which cells a study will try, in which order, from what the user asked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from models.case import Case, Noise, Variant, Workload
from runners.backends import BACKENDS

Profile = Literal["quick", "full", "gpu"]
"""quick: to N 100 000, in minutes on two cores. full: to N 10 M. gpu: as full, most valuable first, in a budget, and
of the backends only those that can use a GPU."""

_MOST_BATCHED = 100_000
"""The largest N that is batched unasked."""


class BadRequest(Exception):
    """What the user asked does not exist; the message is one sentence that names what does."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for; None where nothing was said."""

    variants: tuple[str, ...] | None = None
    backends: tuple[str, ...] | None = None
    n: tuple[int, ...] | None = None
    batches: tuple[int | None, ...] | None = None
    noise: tuple[Noise, ...] | None = None
    profile: Profile = "quick"


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of one variant with every backend to be tried on it, measured together with eager's variable
    form, the `denominator` of all ratios; None in a case without one."""

    case: Case
    workload: Workload
    variant: Variant
    denominator: Variant | None
    backends: tuple[str, ...]


def plan(cases: Sequence[Case], wanted: Wanted) -> list[Round]:
    """Rounds in order: case by case, variant by variant, small workloads first; for a GPU the most valuable
    workloads of all variants first.

    Unasked, a study draws inside the graph everywhere, takes its noise as an input at the smallest N, and
    adds a batch at the smallest N (`full` and `gpu`: up to 100 000).
    """
    known = {variant.name for case in cases for variant in case.variants}
    for name in wanted.variants or ():
        if name not in known:
            raise BadRequest(f"unknown variant {name!r}; valid here: {', '.join(sorted(known))}")
    backends = select_backends(wanted.backends, wanted.profile)
    rounds = [
        Round(case=case, workload=workload, variant=variant, denominator=_denominator(case, variant), backends=backends)
        for case in cases
        for variant in case.variants
        if wanted.variants is None or variant.name in wanted.variants
        for workload in workloads(case, wanted)
    ]
    return sorted(rounds, key=lambda round_: _rank(round_.workload)) if wanted.profile == "gpu" else rounds


def _denominator(case: Case, variant: Variant) -> Variant | None:
    """The variable form that a variant stands for: itself, the one it rewrites, or the case's first."""
    if variant.kind == "variable":
        return variant
    variable = [other for other in case.variants if other.kind == "variable"]
    return next((other for other in variable if other.name == variant.rewrites), variable[0] if variable else None)


def select_backends(names: Sequence[str] | None, profile: Profile = "quick") -> tuple[str, ...]:
    """The backends asked for, in the table's order; eager always, for all others are judged against it. Unasked,
    those with an environment of their own are left out, and for a GPU those that run on the CPU only."""
    for name in names or ():
        if name not in BACKENDS:
            raise BadRequest(f"unknown backend {name!r}; valid: {', '.join(BACKENDS)}")
    wanted = names or [
        name
        for name, backend in BACKENDS.items()
        if not backend.requirements and not (profile == "gpu" and backend.device == "cpu")
    ]
    return tuple(name for name in BACKENDS if name in wanted or name == "eager")


def workloads(case: Case, wanted: Wanted) -> list[Workload]:
    if case.sizes is None:
        return [Workload()]
    sizes = case.sizes
    n = wanted.n or (sizes.quick if wanted.profile == "quick" else sizes.full)
    batches = wanted.batches or sizes.batches
    noises: tuple[Noise | None, ...] = (wanted.noise or ("inside", "input")) if sizes.draws else (None,)
    most_batched = min(n) if wanted.profile == "quick" else _MOST_BATCHED
    return [
        sizes.workload(items, batch, noise)
        for batch in batches
        for noise in noises
        for items in sorted(n)
        if (batch is None or wanted.n is not None or wanted.batches is not None or items <= most_batched)
        and (noise != "input" or wanted.noise is not None or (items == min(n) and batch == batches[0]))
    ]


def _rank(workload: Workload) -> tuple[bool, float]:
    """The articles' sizes first: drawing inside, near N 10 000, then away from it in both directions."""
    size = (workload.n or 1) * (workload.batch or 1)
    return workload.noise == "input", abs(math.log10(size) - 4)


def parse_sizes(text: str) -> tuple[int, ...]:
    """`1000,10k,1M` as numbers."""
    return tuple(_size(part, text) for part in text.split(","))


def parse_batches(text: str) -> tuple[int | None, ...]:
    """`none,32` as batches."""
    return tuple(None if part.strip().lower() == "none" else _size(part, text) for part in text.split(","))


def parse_noise(text: str) -> tuple[Noise, ...]:
    """`inside,input` as places that randomness comes from."""
    valid: dict[str, Noise] = {"inside": "inside", "input": "input"}
    for part in text.split(","):
        if part.strip() not in valid:
            raise BadRequest(f"unknown noise {part.strip()!r}; valid: inside, input")
    return tuple(valid[part.strip()] for part in text.split(","))


def _size(part: str, text: str) -> int:
    match = re.fullmatch(r"(\d+)([kKmM]?)", part.strip().replace("_", ""))
    size = int(match.group(1)) * {"": 1, "k": 1_000, "m": 1_000_000}[match.group(2).lower()] if match else 0
    if size < 1:
        raise BadRequest(f"{part.strip()!r} in {text!r} is no size; valid: whole numbers from 1, as 1000, 10k or 1M")
    return size
