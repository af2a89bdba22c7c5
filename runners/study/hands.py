"""Hands off: what a call leaves behind for its caller, and what the caller can do to later calls.

The outputs of several calls are held. Where two calls gave the same memory and eager's do not, the caller
writes into it: a later answer that shows it makes the memory the engine's own constant (`ALIAS.constant`),
else it is a buffer that each call fills anew (`ALIAS.output`). An output that lies in the memory of an input,
in eager not, lets the caller's writing change the input (`ALIAS.input`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding
from runners.study import compare
from runners.study.inputs import LARGE, size_of

if TYPE_CHECKING:
    from torch import Tensor

CALLS = 4
"""Held at once; of large inputs two."""

_POISON = 113

Memory = tuple[int, int]
"""First address and first address behind."""


def judge(
    call: Callable[..., Any], eager: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], drawn: frozenset[int]
) -> list[Finding]:
    """Findings on a backend's `call`, called with `arguments` (of the same shapes) in turn.

    `drawn` are the numbers of the outputs whose values differ from call to call.
    """
    shared, entangled, overwritten = _held(call, arguments)
    if not (shared or entangled or overwritten):
        return []
    shared_in_eager, entangled_in_eager, _ = _held(eager, arguments)
    findings = []
    if own := (shared | overwritten) - shared_in_eager:
        findings += _poison(call, arguments[0], own, drawn)
    if inputs := entangled - entangled_in_eager:
        findings.append(
            Finding(
                "partial",
                "ALIAS.input",
                f"outputs {sorted(inputs)} share memory with an input: "
                "writing into one changes the other; in eager they do not",
            )
        )
    return findings


def _held(
    call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """Numbers of the outputs that share memory between calls, with an input, and that a later call changed."""
    held, copies, memories, entangled = [], [], [], set()
    calls = CALLS if size_of(arguments) < LARGE else 2
    for number in range(calls):
        handed = compare.clone(arguments[number % len(arguments)])
        outputs = compare.leaves(call(*handed))
        inputs = [memory for leaf in compare.leaves(handed) if (memory := _memory(leaf))]
        # Asked at once: CUDA graphs give no address of what a later replay has overwritten.
        memories.append([_memory(leaf) for leaf in outputs])
        entangled |= {at for at, memory in enumerate(memories[-1]) if any(_meet(memory, one) for one in inputs)}
        held.append((outputs, handed))
        copies.append(compare.clone(outputs))
    overwritten = {
        at
        for (outputs, _), copied in zip(held, copies, strict=True)
        for at in range(len(outputs))
        if not _unchanged(outputs[at], copied[at])
    }
    shared = {
        at
        for index, first in enumerate(memories)
        for second in memories[index + 1 :]
        for at, memory in enumerate(first)
        if any(_meet(memory, other) for other in second)
    }
    return frozenset(shared), frozenset(entangled), frozenset(overwritten)


def _poison(
    call: Callable[..., Any], arguments: tuple[Any, ...], shared: frozenset[int], drawn: frozenset[int]
) -> list[Finding]:
    """Write into shared outputs and look whether later answers show it."""
    clean = compare.clone(compare.leaves(call(*compare.clone(arguments))))
    outputs = compare.leaves(call(*compare.clone(arguments)))
    written = {at for at in shared if _write(outputs[at])}
    answer = compare.leaves(call(*compare.clone(arguments)))
    poisoned = {
        at
        for at in written
        if (_is_poison(answer[at]) and not _is_poison(clean[at]))
        or (at not in drawn and not compare.identical(answer[at], clean[at]))
    }
    findings = []
    if poisoned:
        findings.append(
            Finding(
                "wrong",
                "ALIAS.constant",
                f"outputs {sorted(poisoned)}: what the caller writes into them comes back in later answers",
            )
        )
    if shared - poisoned:
        findings.append(_overwritten(shared - poisoned))
    return findings


def _overwritten(outputs: frozenset[int] | set[int]) -> Finding:
    return Finding(
        "partial",
        "ALIAS.output",
        f"outputs {sorted(outputs)} are overwritten by a later call: copy them before the next",
    )


def _unchanged(leaf: Any, copied: Any) -> bool:
    try:
        return compare.identical(leaf, copied)
    except RuntimeError:  # CUDA graphs raise on reading what a later replay has overwritten
        return False


def _memory(leaf: Any) -> Memory | None:
    """The addresses that a dense tensor spans; None where it has none or they are not told."""
    import torch

    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or not leaf.numel():
        return None
    span = 1 + sum((size - 1) * stride for size, stride in zip(leaf.shape, leaf.stride(), strict=True))
    try:
        first = leaf.data_ptr()
    except RuntimeError:
        return None
    return first, first + span * leaf.element_size()


def _meet(first: Memory | None, second: Memory | None) -> bool:
    return first is not None and second is not None and first[0] < second[1] and second[0] < first[1]


def _write(leaf: Tensor) -> bool:
    """Poison a tensor, whole; False where it cannot be written."""
    import torch

    try:
        with torch.inference_mode():
            if leaf.dtype == torch.bool:
                leaf.logical_not_()
            else:
                leaf.fill_(_POISON)
    except RuntimeError:  # an expanded tensor has several elements in one place
        return False
    return True


def _is_poison(leaf: Tensor) -> bool:
    import torch

    return leaf.dtype != torch.bool and bool((leaf.detach().to(torch.complex128) == _POISON).all())
