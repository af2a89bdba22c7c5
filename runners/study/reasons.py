"""Reason codes: one table, and the rules that give a compiler's own words their code.

A code is stable and means one thing; the words are kept whole beside it. What no rule knows is
`UNCLASSIFIED`.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from runners.study.record import Reason

CODES: dict[str, str] = {
    # data-dependent shapes
    "DDS.guard": "a Python decision hangs on a size or value that only the data knows",
    "DDS.operator": "an operator whose output shape depends on data has no lowering here",
    "DDS.item": "a value is read out of a tensor into Python",
    # operators and limits
    "OP.unsupported": "the compiler has no function for an operator",
    "OP.dtype": "the operator exists, but not for this dtype",
    "LIMIT.topk_k": "top-k beyond the largest K that the engine takes",
    "COMPILER.internal": "the compiler failed inside itself",
    "COMPILER.cpp": "the C++ compiler refused the generated code",
    # what ran is not what was asked
    "GRAPH.breaks": "the graph was cut in pieces; Python runs between them",
    "GRAPH.recompile_limit": "the recompile limit was reached; eager runs in place of compiled code",
    "FALLBACK.provider": "nodes ran on another execution provider",
    "FALLBACK.undelegated": "operators stayed outside the engine asked for",
    "SHAPE.specialised": "a dimension that was asked dynamic became a constant",
    "SHAPE.refused": "a shape other than the example's was refused",
    "DTYPE.narrowed": "the engine replaced a dtype by a narrower one",
    # wrong answers
    "VALUE.mismatch": "values differ from eager's",
    "VALUE.not_in_input": "a sampled row is no row of the input",
    "VALUE.label": "a sampled label is not that of its row",
    "VALUE.quota": "the sample's classes do not meet their quotas",
    "VALUE.ineligible": "an item was sampled that must never be",
    "VALUE.expected": "eager does not give what the case file states",
    "SHAPE.mismatch": "an output has another shape than eager's",
    "DTYPE.mismatch": "an output has another dtype than eager's",
    "STRUCTURE.mismatch": "another number or nesting of outputs than eager's",
    "RNG.frozen": "a draw never changes",
    "RNG.repeats": "a draw repeats what must be distinct",
    "ORDER.biased": "the order is not uniformly random",
    "INCLUSION.biased": "items are not equally likely to be drawn",
    "ALIAS.output": "an output is overwritten by a later call: copy it",
    "ALIAS.constant": "an output is the engine's own constant: writing into it changes later answers",
    "INPUT.changed": "a call changes its inputs though the variant does not",
    # limits of machine and study
    "MEMORY.device": "the device's memory does not hold it",
    "MEMORY.host": "the worker outgrew its memory limit, or the host's memory",
    "TIME.limit": "a stage outlived its limit and was ended",
    "CRASH.sigsegv": "the worker died of a segmentation fault",
    "CRASH.signal": "the worker died of another signal",
    "CRASH.exit": "the worker left without a word",
    "EAGER.failed": "the variant fails in eager itself, so nothing can be judged against it",
    "INPUT.misfit": "the inputs do not fit the module",
    # missing things
    "ENV.no_package": "a package is not installed",
    "ENV.no_device": "the device is not there",
    "ENV.no_provider": "the session does not have the execution provider asked for",
    "ENV.broken_package": "a package is installed but does not import",
    "BUILT.no_run": "built for a device that this machine lacks; it was not run",
    "UNCLASSIFIED": "no rule knows these words yet",
}

_RULES: tuple[tuple[str, str], ...] = (
    # (pattern searched in the whole text, code); the first that matches wins
    (r"K exceeds the maximum value allowed|K value .* exceeds", "LIMIT.topk_k"),
    (r"CUDA out of memory|OutOfMemoryError|out of device memory|Failed to allocate memory for requested buffer", "MEMORY.device"),
    (r"can't allocate memory|MemoryError|std::bad_alloc|bad allocation", "MEMORY.host"),
    (r"GuardOnDataDependentSymNode|Could not guard on data-dependent|DataDependentOutputException|"
     r"data-dependent (branching|expression)|Data-dependent branching", "DDS.guard"),
    (r"DynamicOutputShapeException|dynamic shape operator|Data dependent operator|NonZero|nonzero", "DDS.operator"),
    (r"Tensor\.item|_local_scalar_dense|\.item\(\)", "DDS.item"),
    (r"CppCompileError|C\+\+ compile error", "COMPILER.cpp"),
    (r"No ONNX function found|[Uu]nsupported operator|[Uu]nsupported function|not implemented for the operator|"
     r"No conversion rule|[Nn]o importer|is not supported|NOT_IMPLEMENTED|not implemented", "OP.unsupported"),
    (r"InductorError|BackendCompilerFailed|InternalTorchDynamoError|INTERNAL ASSERT", "COMPILER.internal"),
)


def code_of(text: str) -> str:
    """The code of a compiler's words, `UNCLASSIFIED` when no rule knows them."""
    return next((code for pattern, code in _RULES if re.search(pattern, text)), "UNCLASSIFIED")


def reason_of(error: BaseException, case_path: str) -> Reason:
    """The reason of an error: its code, its whole text with what caused it, and the user's file and line."""
    text = "\n".join(_texts(error))
    return Reason(code=code_of(text), text=text, where=where(error, text, case_path))


def where(error: BaseException, text: str, case_path: str) -> str | None:
    """`file:line` of the innermost line of the case file that the error names or passed through."""
    name = Path(case_path).name
    named = re.findall(rf'File "[^"]*{re.escape(name)}", line (\d+)', text)
    if named:
        return f"{name}:{named[-1]}"
    lines = [
        frame.lineno
        for link in _chain(error)
        for frame in traceback.extract_tb(link.__traceback__)
        if Path(frame.filename).name == name
    ]
    return f"{name}:{lines[-1]}" if lines else None


def _texts(error: BaseException) -> list[str]:
    """The messages of an error and of its causes, without repetitions."""
    texts: list[str] = []
    for link in _chain(error):
        text = f"{type(link).__name__}: {link}"
        if not any(str(link) in earlier for earlier in texts):
            texts.append(text)
    return texts


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain
