"""Random draws: whether a backend draws as eager does, from many calls of both on the same inputs.

Each output that eager changes from call to call is judged for itself. It must change (`RNG.frozen`), must not
come back whole (`RNG.repeats`), must keep what it holds apart where the case says so of indices or eager always
does (`RNG.repeats`), and must have eager's distribution (`RNG.distribution`): elements, ordered elements,
differences of neighbours, mean, spread and number of distinct values, each by a two-sample
Kolmogorov-Smirnov test. The bound on its statistic holds for every distribution, discrete ones too
(Wei and Dudley 2012), and Bonferroni's correction holds the false alarms of one output below `FALSE_ALARM`.
What eager holds constant (a sorted permutation, for instance) is such a distribution, too.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from models.case import Fault
from runners.study import compare

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

FALSE_ALARM = 1e-6
LEAST, MOST = 30, 400
"""Draws of each side: below `LEAST` no test could reach its false-alarm rate."""

_ELEMENTS = 4096
_POSITIONS = 32


@dataclass(frozen=True)
class Drawn:
    """One output of one call: `digest` of all of it, up to `_ELEMENTS` of its elements as float64 `sample`, whether
    they can be indices, and whether its last dimension then holds one twice (negative ones are padding)."""

    shape: tuple[int, ...]
    digest: bytes
    sample: NDArray[numpy.float64]
    indices: bool
    repeats: bool
    tolerance: tuple[float, float]


Draws = list[list[Drawn]]
"""Per call, per output leaf."""


def collect(call: Callable[[], Any], seconds: float, most: int = MOST) -> Draws:
    """The outputs of up to `most` calls in about `seconds`, of `LEAST` calls in any case."""
    draws: Draws = []
    end = time.perf_counter() + seconds
    while len(draws) < most and (len(draws) < LEAST or time.perf_counter() < end):
        draws.append([_look(leaf) for leaf in compare.leaves(call())])
    return draws


def changing(draws: Draws) -> frozenset[int]:
    """The numbers of the leaves that are not the same in every call."""
    return frozenset(number for number in range(len(draws[0])) if len({draw[number].digest for draw in draws}) > 1)


def repeated(draws: Draws) -> int:
    """In how many calls a drawn leaf of indices holds one twice."""
    drawn = changing(draws) - carried(draws)
    return sum(any(draw[number].repeats for number in drawn) for draw in draws)


def carried(draws: Draws) -> frozenset[int]:
    """The numbers of the drawn leaves that are no indices but what lies there, labels of a sample for instance: each
    value of a leaf beside them, in which none comes twice, goes with one of theirs, and several with the same."""
    drawn = [number for number in changing(draws) if all(draw[number].indices for draw in draws)]
    apart = [number for number in drawn if not any(draw[number].repeats for draw in draws)]
    return frozenset(
        number for number in drawn if any(_carries(draws, index, number) for index in apart if index != number)
    )


def judge(eager: Draws, backend: Draws, distinct: bool) -> tuple[list[Fault], dict[str, Any]]:
    """The faults of the backend's draws, at most one a leaf, and what the tests could have seen.

    `distinct`: the case says that drawn indices do not repeat.
    """
    count = min(len(eager), len(backend))
    eager, backend = eager[:count], backend[:count]
    found, sees = [], 0.0
    may_repeat = carried(eager) if distinct else frozenset()
    for number in sorted(changing(eager)):
        ours = [draw[number] for draw in backend]
        theirs = [draw[number] for draw in eager]
        fault = _stuck(theirs, ours) or _repeats(theirs, ours, distinct and number not in may_repeat)
        if fault is None:
            fault, threshold = _distribution(theirs, ours)
            sees = max(sees, threshold)
        if fault:
            found.append(Fault(fault.code, f"output {number}: {fault.text}"))
    facts = {"draws": count, "false_alarm": FALSE_ALARM, "sees_difference_of": round(min(sees, 1.0), 3)}
    return found, facts


def more_often(many: int, few: int, count: int) -> bool:
    """Whether `many` against `few` successes in `count` trials each is beyond chance (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    return bool(fisher_exact([[many, count - many], [few, count - few]], alternative="greater").pvalue < FALSE_ALARM)


def _look(leaf: Any) -> Drawn:
    import numpy
    import torch

    if not isinstance(leaf, torch.Tensor):
        sample = numpy.array([leaf if isinstance(leaf, (int, float)) else 0.0], dtype=numpy.float64)
        return Drawn((), repr(leaf).encode(), sample, False, False, (0.0, 0.0))
    dense = leaf.detach().to_dense() if leaf.layout != torch.strided else leaf.detach()
    dense = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
    dense = dense.cpu().contiguous()
    repeats = False
    indices = bool(dense.dim()) and dense.dtype not in (torch.bool, torch.uint8) and not dense.is_floating_point()
    if indices:
        ordered = dense.sort(-1).values
        repeats = bool(((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any())
    content = dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else numpy.empty(0, numpy.uint8)
    digest = hashlib.blake2b(content.tobytes(), digest_size=16, key=str(tuple(dense.shape)).encode()[:64]).digest()
    flat = dense.reshape(-1)
    flat = flat[:: max(1, math.ceil(flat.numel() / _ELEMENTS))]
    sample = flat.double().numpy()
    return Drawn(tuple(leaf.shape), digest, sample, indices, repeats, compare.tolerance(leaf.dtype))


def _carries(draws: Draws, index: int, other: int) -> bool:
    """Whether the row and value in leaf `index` tell that in leaf `other`, and not the other way round."""
    import numpy

    if any(draw[index].shape != draw[other].shape for draw in draws):
        return False
    at, lies = (numpy.concatenate([_keyed(draw[leaf]) for draw in draws[:LEAST]], 1) for leaf in (index, other))
    told, found, both = (numpy.unique(keys, axis=1).shape[1] for keys in (at, lies, numpy.concatenate([at, lies])))
    return bool(found < told == both)


def _keyed(one: Drawn) -> NDArray[numpy.float64]:
    """The elements of a sample, each under the row of the last dimension that it stands in."""
    import numpy

    step = max(1, math.ceil(math.prod(one.shape) / _ELEMENTS))
    return numpy.stack([numpy.arange(one.sample.size) * step // max(1, one.shape[-1]), one.sample])


def _stuck(eager: Sequence[Drawn], backend: Sequence[Drawn]) -> Fault | None:
    different, usual = len({one.digest for one in backend}), len({one.digest for one in eager})
    count = len(backend)
    if different == 1 and more_often(_changes(eager), 0, count - 1):
        return Fault("RNG.frozen", f"{count} calls drew the same, where eager drew {usual} different answers")
    if usual > 0.8 * count and different <= count // 2:
        return Fault("RNG.repeats", f"{count} calls gave {different} different draws, eager {usual}")
    return None


def _changes(draws: Sequence[Drawn]) -> int:
    return sum(a.digest != b.digest for a, b in itertools.pairwise(draws))


def _repeats(eager: Sequence[Drawn], backend: Sequence[Drawn], distinct: bool) -> Fault | None:
    usual, seen = sum(one.repeats for one in eager), sum(one.repeats for one in backend)
    if usual == 0 < seen and (distinct or more_often(seen, 0, len(backend))):
        return Fault("RNG.repeats", f"{seen} of {len(backend)} draws hold an index twice, in eager none does")
    return None


def _distribution(eager: Sequence[Drawn], backend: Sequence[Drawn]) -> tuple[Fault | None, float]:
    """The feature whose distribution differs most, and the difference of distribution functions that shows."""
    import numpy

    shapes = {one.shape for one in eager}
    if len(shapes) == 1 and (other := {one.shape for one in backend} - shapes):
        return Fault("SHAPE.mismatch", f"a draw has shape {min(other)}, in eager always {min(shapes)}"), 0.0
    aligned = len(shapes) == 1
    usual, seen = _features(eager, aligned), _features(backend, aligned)
    count = len(eager)
    threshold = math.sqrt(math.log(2.17 * len(usual) / FALSE_ALARM) / count)
    relative, absolute = eager[0].tolerance
    worst, name = max((_distance(values, seen[name], relative, absolute), name) for name, values in usual.items())
    if worst <= threshold:
        return None, threshold
    ours, theirs = seen[name], usual[name]
    if name.startswith("element") and ours.max() == ours.min() and theirs.max() != theirs.min():
        return Fault("RNG.frozen", f"{name} is {ours[0]:g} in each of {count} calls, in eager it changes"), threshold
    return Fault(
        "RNG.distribution",
        f"{name} is distributed otherwise than in eager: the distribution functions of {count} draws each differ by "
        f"{worst:.2f} (chance: {threshold:.2f}); median {numpy.median(ours):g}, in eager {numpy.median(theirs):g}",
    ), threshold


def _features(draws: Sequence[Drawn], aligned: bool) -> dict[str, NDArray[numpy.float64]]:
    """Named numbers of each draw, as arrays `[draws]`; single elements only where all shapes are `aligned`."""
    import numpy

    features = {}
    if aligned and draws[0].sample.size:
        samples = _finite(numpy.stack([one.sample for one in draws]))
        size = samples.shape[1]
        ordered = numpy.sort(samples, 1)
        for position in sorted(set(numpy.linspace(0, size - 1, _POSITIONS).astype(int).tolist())):
            features[f"element {position}"] = samples[:, position]
            features[f"ordered element {position}"] = ordered[:, position]
            if position:
                features[f"difference of elements {position} and {position - 1}"] = (
                    samples[:, position] - samples[:, position - 1]
                )
        features["the number of distinct values"] = (ordered[:, 1:] != ordered[:, :-1]).sum(1).astype(float)
        with numpy.errstate(over="ignore", invalid="ignore"):
            features["the mean"], features["the spread"] = samples.mean(1), _finite(samples.std(1))
        return features
    samples_list = [_finite(one.sample) for one in draws]
    for name, function in (("the mean", numpy.mean), ("the smallest", numpy.min), ("the largest", numpy.max)):
        features[name] = numpy.array([float(function(one)) if one.size else 0.0 for one in samples_list])
    for dimension in range(len(draws[0].shape)):
        features[f"size {dimension}"] = numpy.array([float(one.shape[dimension]) for one in draws])
    return features


def _finite(sample: NDArray[numpy.float64]) -> NDArray[numpy.float64]:
    import numpy

    return numpy.nan_to_num(sample, nan=-1e300, posinf=1e300, neginf=-1e299)


def _distance(
    eager: NDArray[numpy.float64], backend: NDArray[numpy.float64], relative: float, absolute: float
) -> float:
    """The Kolmogorov-Smirnov statistic of two samples, values within the tolerance counted as equal."""
    import numpy

    finite = numpy.abs(eager)[numpy.abs(eager) < 1e298]
    slack = absolute + relative * (float(finite.max()) if finite.size else 0.0)
    a, b = numpy.sort(eager), numpy.sort(backend)
    a_at, b_at = numpy.searchsorted(a, a, "right"), numpy.searchsorted(b, b, "right")
    above = (a_at / a.size - numpy.searchsorted(b, a + slack, "right") / b.size).max()
    below = (b_at / b.size - numpy.searchsorted(a, b + slack, "right") / a.size).max()
    return max(float(above), float(below), 0.0)
