"""Reason codes: one table, and the rules that give a compiler's own words their code.

A code is stable and means one thing; the words are kept whole beside it. What no rule knows is
`UNCLASSIFIED`. `python -m runners.study.reasons` prints the table for the README.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from runners.study.record import Reason

CODES: dict[str, str] = {
    # data-dependent shapes
    "DDS.guard": "a Python decision hangs on a size or value that only the data knows",
    "DDS.operator": "an operator whose output shape depends on data has no lowering here",
    "DDS.item": "a value is read out of a tensor into Python",
    # operators and limits
    "OP.unsupported": "the compiler has no function for an operator",
    "OP.dtype": "the operator exists, but not for this dtype",
    "LIMIT.stack": "the generated code needs more stack than the target allows",
    "LIMIT.topk_k": "top-k beyond the largest K that the engine takes",
    # a stage gave up
    "GRAPH.untraceable": "Dynamo cannot trace this Python code into a graph",
    "GRAPH.invalid": "the exported graph breaks the rules of its own format",
    "CAPTURE.failed": "capture gave up, for a reason that no other code names",
    "CONVERT.failed": "the conversion gave up, for a reason that no other code names",
    "COMPILER.internal": "the compiler failed inside itself",
    "COMPILER.cpp": "the C++ compiler refused the generated code",
    "RUN.failed": "the engine took the graph and failed while it ran",
    # what ran is not what was asked
    "GRAPH.breaks": "the graph was cut in pieces; Python runs between them",
    "GRAPH.recompile_limit": "the recompile limit was reached; eager runs in place of compiled code",
    "FALLBACK.provider": "nodes ran on another execution provider",
    "FALLBACK.undelegated": "operators stayed outside the engine asked for",
    "FALLBACK.unseen": "the answer is right, but what ran where could not be seen",
    "SHAPE.specialised": "a dimension that was asked dynamic became a constant",
    "SHAPE.refused": "a shape other than the example's was refused",
    "SHAPE.unchecked": "a shape or number that it was not built for is answered wrongly, not refused: check it",
    "DTYPE.narrowed": "the engine replaced a dtype by a narrower one",
    "VALUE.uninformative": "eager gives only zeros or NaN, or draws and it never shows: a lost answer would not show",
    # wrong answers
    "VALUE.mismatch": "values differ from eager's",
    "STATE.mismatch": "the module writes into itself, and from the same state its next answers differ from eager's",
    "VALUE.not_in_input": "a sampled row is no row of the input",
    "VALUE.label": "a sampled label is not that of its row",
    "VALUE.quota": "the sample's classes do not meet their quotas",
    "VALUE.ineligible": "an item was sampled that must never be",
    "VALUE.expected": "eager does not give what the case file states",
    "SHAPE.mismatch": "an output has another shape than eager's",
    "DTYPE.mismatch": "an output has another dtype than eager's",
    "STRUCTURE.mismatch": "another number or nesting of outputs than eager's",
    "RNG.frozen": "a draw never changes",
    "RNG.repeats": "a draw repeats what must be distinct, or an earlier draw",
    "RNG.distribution": "draws are distributed otherwise than eager's",
    "ORDER.biased": "the order is not uniformly random (or, where eager's is not, not as eager's)",
    "INCLUSION.biased": "items are not equally likely to be drawn (or, where eager's are not, not as eager's)",
    "ALIAS.output": "an output is overwritten by a later call: copy it",
    "ALIAS.input": "an output shares memory with an input, in eager it does not: copy it",
    "ALIAS.constant": "an output is the engine's own constant: writing into it changes later answers",
    "INPUT.changed": "a call changes its inputs though the variant does not say so",
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
    "ENV.not_made": "an environment of the backend's own could not be made",
    "BUILT.no_run": "built for a device that this machine lacks; it was not run",
    "UNCLASSIFIED": "no rule knows these words yet",
}

_SHAPED_BY_DATA = r"(?i:nonzero|non_zero|argwhere|masked_select|unique|bincount|repeat_interleave)"
_REFUSES = r"(?i:legaliz|not found|No ONNX function|unsupported|not supported|no conversion rule|statically specified)"

_GRAPH_BREAKS = {
    # Dynamo's own number of a graph break, as in compile-graph-break-site/gb/gb0123.html, and its title, which is all
    # that torch 2.8 tells
    "DDS.guard": {
        "0002": "Assertion failed on symbolic shapes",
        "0018": "Attempted to wrap unbacked SymInt",
        "0034": "Data-dependent assertion failed (cannot compile partial graph)",
        "0035": "Data-dependent branching with non-constant __bool__",
        "0170": "Data-dependent branching",
        "0214": "unsupported SymNode comparison op",
        "0360": "torch.fx.experimental.symbolic_shapes.guard_scalar branch not supported",
    },
    "DDS.operator": {
        "0036": "Dynamic shape operator",
        "0037": "Dynamic shape operator (no meta kernel)",
        "0038": "Dynamic slicing with Tensor arguments",
        "0070": "Indexing list with non-scalar tensor",
        "0218": "unsupported index(Tensor)",
        "0246": "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",
        "7596": "Indexing torch.Size with non-scalar tensor",
    },
    "DDS.item": {
        "0033": "Data dependent operator",
        "0109": "Tensor.tolist() with non-integer tensor",
        "0124": "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    },
    "GRAPH.recompile_limit": {"0039": "Dynamo cache limit exceeded"},
    "OP.unsupported": {
        "0043": "Encountered non-PT2-compliant op",
        "0087": "NotImplementedError/UnsupportedFakeTensorException when running FX node",
        "0090": "Operator does not support running with fake tensors",
    },
    "COMPILER.internal": {"0219": "Backend compiler exception"},
}

_RULES: tuple[tuple[str, str], ...] = (
    # (code, pattern searched in the whole text); the first that matches wins
    ("LIMIT.stack", r"exceeded stack allocation limit"),
    ("LIMIT.topk_k", r"K exceeds the maximum value allowed|K value .* exceeds"),
    (
        "MEMORY.device",
        r"CUDA out of memory|OutOfMemoryError|out of device memory|MEM_ALLOC_FAILED|"
        r"Failed to allocate memory for requested buffer|CUDA error: out of memory|cudaErrorMemoryAllocation",
    ),
    ("MEMORY.host", r"can't allocate memory|MemoryError|std::bad_alloc|bad allocation|not enough memory"),
    ("SHAPE.specialised", r"Constraints violated|your code specialized it to be a constant|ConstraintViolationError"),
    # data-dependent shapes: torch and jax, which says of any read that a concrete value is expected
    ("DDS.item", r"This occurred in the item\(\) method"),
    (
        "DDS.guard",
        r"GuardOnDataDependentSymNode|Could not guard on data-dependent|Data-dependent branching|"
        r"data-dependent (branching|expression)|TracerBoolConversionError|TracerIntegerConversionError|"
        r"ConcretizationTypeError",
    ),
    (
        "DDS.operator",
        r"DynamicOutputShapeException|[Dd]ynamic shape operator|data-dependent output shape|"
        r"NonConcreteBooleanIndexError|plugin creator.*NonZero|NonZero plugin|"
        rf"{_REFUSES}[^\n]{{0,160}}{_SHAPED_BY_DATA}|{_SHAPED_BY_DATA}[^\n]{{0,160}}{_REFUSES}",
    ),
    ("DDS.item", r"DataDependentOutputException|Data dependent operator|Tensor\.item\(\)|_local_scalar_dense"),
    ("GRAPH.recompile_limit", r"FailOnRecompileLimitHit|recompile_limit reached|cache limit exceeded"),
    # Dynamo's words before all of them had a title
    ("GRAPH.untraceable", r"^Unsupported: |Dynamo failed to run FX node with fake tensors"),
    # dtypes before operators: these texts hold "not implemented" and "unsupported" as well
    (
        "OP.dtype",
        r"not implemented for '\w+'|unsupported ScalarType|Type parameter \(\w+\) of Optype|"
        r"Type 'tensor\(\w+\)' of input parameter|UNSUPPORTED_DATATYPE|[Uu]nsupported (data ?type|dtype)|"
        r"fcmp|Invalid operand types for ICmp|element type .* (is )?not supported",
    ),
    ("COMPILER.cpp", r"CppCompileError|C\+\+ compile error"),
    (
        "SHAPE.refused",
        r"Got invalid dimensions for input|Attempted to resize a static tensor|Guard failed: .*size\(\)|"
        r"Expected input (at )?\S+\.shape\[|"
        r"Input shape dimension .* cannot be broadcasted|(?i:static dimension .* does not match)|"
        r"The input tensor size is not equal to the model input",
    ),
    (
        "OP.unsupported",
        r"No ONNX function found|(?i:unsupported (operator|function|op\b|node))|UNSUPPORTED_NODE|"
        r"UNSUPPORTED_GRAPH|not implemented for the operator|No conversion rule|[Nn]o importer|[Pp]lugin creator|"
        r"failed to legalize operation|No Op registered for|Missing out variants|OperatorMissing|error 0x14|"
        r"NOT_IMPLEMENTED|Could not find any implementation|No (translation|lowering) (found|rule)|MissingOperator|"
        r"is not supported|not implemented|kernel '[\w:.]+' not found|is not in Core ATen opset|"
        r"Unimplemented call_function|Plugin not found|at least \d+ dimensions are required",
    ),
    (
        "GRAPH.invalid",
        r"INVALID_GRAPH|INVALID_PROTOBUF|INVALID_NODE|MODEL_DESERIALIZE_FAILED|SpecViolationError|"
        r"MLIRError: Verification failed|Network must have at least",
    ),
    (
        "INPUT.misfit",
        r"forward\(\) (takes (from )?\d+ (to \d+ )?positional arguments? but|missing \d+ required positional)|"
        r"shapes cannot be multiplied|Guard failed: |Unexpected input data type|"
        r"flatten user inputs with exported input tree spec",
    ),
    (
        "RUN.failed",
        r"RUNTIME_EXCEPTION|EP_FAIL|Non-zero status code returned while running|"
        r"Execution (of method \w+ )?failed with|error 0x12|enqueueV3|execute_async_v3|"
        r"Error invoking function",
    ),
    (
        "COMPILER.internal",
        r"InductorError|BackendCompilerFailed|InternalTorchDynamoError|INTERNAL ASSERT|"
        r"INTERNAL_ERROR|Internal ?Error|LLVM ERROR|ONNXRuntimeError|Check .* failed at src|"
        r"Compilation failed: See diagnostics|Cannot convert infinity|"
        r"requires all operands to have the same type|failed to bufferize|Not all inputs to pattern found",
    ),
    ("CAPTURE.failed", r"TorchExportError|This is step 1/3|torch\._dynamo\.exc"),
    (
        "CONVERT.failed",
        r"ConversionError|This is step [23]/3|DispatchError|No registered serialization name|"
        r"is not yet implemented|NotImplementedError: OutputKind|Unsupported output type|produced no Relax outputs",
    ),
    # a compiler that trips over its own Python
    ("COMPILER.internal", r"^(Attribute|Assertion|Index|Key|Name|Type|UnboundLocal)Error: "),
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def code_of(text: str) -> str:
    """The code of a compiler's words, `UNCLASSIFIED` when no rule knows them."""
    if told := re.search(r"/gb/gb(\d{4})\.html", text) or re.match(r"\w+: (.+)\n  Explanation: ", text):
        known = (code for code, breaks in _GRAPH_BREAKS.items() if told[1] in {*breaks, *breaks.values()})
        return next(known, "GRAPH.untraceable")
    return next((code for code, pattern in _RULES if re.search(pattern, text)), "UNCLASSIFIED")


def reason_of(error: BaseException, case_path: str) -> Reason:
    """The reason of an error: its code, its whole text with what caused it, and the user's file and line."""
    text = _ANSI.sub("", "\n".join(_texts(error)))
    return Reason(code=code_of(text), text=text, where=where(error, text, case_path))


def where(error: BaseException, text: str, case_path: str) -> str | None:
    """`file:line` of the innermost line of the case file that the error names, passed through, or was at work
    on: exporters and compilers hold the node that they translate, and the node the user's stack."""
    name = Path(case_path).name
    for told in (text, *(stack for link in _chain(error) for stack in _stacks(link))):
        if lines := _lines(told, name):
            return f"{name}:{lines[-1]}"
    passed = [
        frame.lineno
        for link in _chain(error)
        for frame in traceback.extract_tb(link.__traceback__)
        if Path(frame.filename).name == name
    ]
    return f"{name}:{passed[-1]}" if passed else None


def codes_table() -> str:
    """The table of codes in Markdown."""
    rows = [f"| `{code}` | {meaning} |" for code, meaning in CODES.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def _lines(text: str, name: str) -> list[str]:
    """The line numbers that a text gives for the file `name`: of Python's tracebacks, else of torch's own
    `(file.py:12 in forward)` and MLIR's `"file.py":12:0`."""
    file = rf"(?<![\w.-]){re.escape(name)}"
    return re.findall(rf'File "[^"]*{file}", line (\d+)', text) or re.findall(
        rf'{file}(?:":(?=\d+:)|:(?=\d+ in ))(\d+)', text
    )


def _stacks(error: BaseException) -> list[str]:
    """The user's stacks of the graph nodes in the frames that an error passed through, innermost first."""
    stacks = []
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        for name in ("node", "n", "fx_node"):
            meta: Any = getattr(frame.f_locals.get(name), "meta", None)
            if isinstance(meta, dict) and isinstance(meta.get("stack_trace"), str):
                stacks.append(meta["stack_trace"])
    return stacks


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


if __name__ == "__main__":
    print(codes_table())
