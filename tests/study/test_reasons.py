"""Reason codes: the tools' own words, made here where that is cheap, and told as they were met where it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

from runners.study import reasons
from runners.study.reasons import CODES, code_of, codes_table, reason_of

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).name


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x + 1


class Read(nn.Module):
    def forward(self, x):
        return x.reshape(-1)[: int(x.sum())] + torch.zeros(int(x.sum()) - 1)


class Width(nn.Module):
    def forward(self, x):
        return nn.functional.one_hot(x.long())


class Opens(nn.Module):
    def forward(self, x):
        return x + len(open("/dev/null").read())  # noqa: PTH123


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(4) + 1


class Sorts(nn.Module):
    def forward(self, x):
        return torch.sort(x, stable=True).values


def said_by(function, *arguments, **options):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function(*arguments, **options)
    return reason_of(caught.value, HERE)


def line_of(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"{HERE}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def fullgraph(module, x):
    torch._dynamo.reset()
    return torch.compile(module, fullgraph=True, backend="eager")(x)


@pytest.mark.parametrize(
    ("module", "code", "line"),
    [
        (Branch(), "DDS.guard", "if x.sum() > 0:"),
        (Width(), "DDS.operator", "return nn.functional.one_hot"),
        (Opens(), "GRAPH.untraceable", 'return x + len(open("/dev/null")'),
    ],
)
def test_what_dynamo_says(module: nn.Module, code: str, line: str) -> None:
    reason = said_by(fullgraph, module, torch.ones(4))
    assert (reason.code, reason.where) == (code, line_of(line)), reason.text


@pytest.mark.parametrize(
    ("module", "code", "line"),
    [
        (Branch(), "DDS.guard", "if x.sum() > 0:"),
        (Read(), "DDS.guard", "return x.reshape(-1)[: int(x.sum())]"),
        (Width(), "DDS.guard", "return nn.functional.one_hot"),
    ],
)
def test_what_export_says(module: nn.Module, code: str, line: str) -> None:
    reason = said_by(torch.export.export, module, (torch.ones(4),))
    assert (reason.code, reason.where) == (code, line_of(line)), reason.text


def test_a_dimension_that_export_turned_constant() -> None:
    reason = said_by(torch.export.export, Fixed(), (torch.ones(4),), dynamic_shapes=({0: Dim("n")},))
    assert reason.code == "SHAPE.specialised"


@pytest.mark.parametrize(
    ("module", "code", "line"),
    [
        (Branch(), "DDS.guard", "if x.sum() > 0:"),
        (Sorts(), "OP.unsupported", "return torch.sort(x"),
    ],
)
def test_what_the_onnx_exporter_says_at_each_step(module: nn.Module, code: str, line: str) -> None:
    pytest.importorskip("onnxscript")
    reason = said_by(torch.onnx.export, module, (torch.ones(4),), dynamo=True, verbose=False)
    assert (reason.code, reason.where) == (code, line_of(line)), reason.text
    assert "\x1b" not in reason.text


def test_an_exported_program_that_refuses_a_shape() -> None:
    program = torch.export.export(Fixed(), (torch.ones(4),)).module()
    assert said_by(program, torch.ones(5)).code == "SHAPE.refused"


def test_inputs_that_do_not_fit() -> None:
    assert said_by(Branch(), torch.ones(1), 2).code == "INPUT.misfit"
    assert said_by(nn.Linear(3, 3), torch.ones(2, 4)).code == "INPUT.misfit"


def onnx_model(operator: str, *kinds: int) -> bytes:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    values = [helper.make_tensor_value_info(f"x{at}", kind, [2]) for at, kind in enumerate(kinds)]
    node = helper.make_node(operator, [value.name for value in values], ["y"])
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", kinds[0], [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model.SerializeToString()


FLOAT, INT64, BFLOAT16 = 1, 7, 16


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (("Foo", FLOAT), "OP.unsupported"),
        (("Add", FLOAT, INT64), "OP.dtype"),
        (("Relu", BFLOAT16), "OP.unsupported"),
    ],
)
@pytest.mark.onnxruntime_cpu
def test_what_onnx_runtime_says_of_a_model(model: tuple, code: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    reason = said_by(onnxruntime.InferenceSession, onnx_model(*model), providers=["CPUExecutionProvider"])
    assert reason.code == code, reason.text


@pytest.mark.onnxruntime_cpu
def test_what_onnx_runtime_says_of_inputs() -> None:
    onnxruntime, numpy = pytest.importorskip("onnxruntime"), pytest.importorskip("numpy")
    session = onnxruntime.InferenceSession(onnx_model("Relu", FLOAT), providers=["CPUExecutionProvider"])
    assert said_by(session.run, None, {"x0": numpy.zeros(3, "float32")}).code == "SHAPE.refused"
    assert said_by(session.run, None, {"x0": numpy.zeros(2, "float64")}).code == "INPUT.misfit"
    rubbish = said_by(onnxruntime.InferenceSession, b"rubbish", providers=["CPUExecutionProvider"])
    assert rubbish.code == "GRAPH.invalid"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("INVALID_NODE: K exceeds the maximum value allowed (3840).", "LIMIT.topk_k"),
        (
            "UNSUPPORTED_NODE: Plugin not found, are the plugin name and version correct? "
            "[NonZero node 'n', plugin creator]\nNonZero plugin creator not found",
            "DDS.operator",
        ),
        ("UNSUPPORTED_NODE_ATTR: This version of TensorRT does not take it", "OP.unsupported"),
        (
            "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error "
            "(Could not find any implementation for node",
            "OP.unsupported",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running TopK node. Name:'' "
            "Status Message: "
            "k argument [9] should not be greater than specified axis dim value [3]",
            "RUN.failed",
        ),
        ("[ONNXRuntimeError] : 11 : EP_FAIL : TensorRT EP failed to create engine", "RUN.failed"),
        ("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization", "RUN.failed"),
        (
            "Check 'is_conversion_successful' failed\nNo conversion rule found for operations: aten::sort",
            "OP.unsupported",
        ),
        ("No conversion rule found for operations: aten::count_nonzero", "DDS.operator"),
        ("error: failed to legalize operation 'torch.aten.nonzero_numpy'", "DDS.operator"),
        (
            "error: failed to legalize operation 'torch.aten.sort.stable' that was explicitly marked illegal",
            "OP.unsupported",
        ),
        ("Unsupported function types ['nonzero.default']", "DDS.operator"),
        ("Unsupported function types ['rand.default']", "OP.unsupported"),
        ("LLVM module verification failed: fcmp oge i1 %a", "OP.dtype"),
        ("The size argument of jnp.nonzero must be statically specified", "DDS.operator"),
        ("jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array", "DDS.guard"),
        (
            "ConcretizationTypeError: Abstract tracer value encountered where concrete value is expected: traced array "
            "with shape int64[]\nThis occurred in the item() method of jax.Array",
            "DDS.item",
        ),
        ("Execution failed with error 0x12", "RUN.failed"),
        ("Missing out variants: {'aten::sort'}", "OP.unsupported"),
        ("CppCompileError: C++ compile error\nerror: use of undeclared identifier", "COMPILER.cpp"),
        ("CUDA out of memory. Tried to allocate 20.00 GiB", "MEMORY.device"),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory", "MEMORY.host"),
        ("\"addmm_impl_cpu_\" not implemented for 'Half'", "OP.dtype"),
        ("InductorError: LoweringException: AssertionError", "COMPILER.internal"),
        ("RuntimeError: Not all inputs to pattern found in match.kwargs.", "COMPILER.internal"),
        ("RuntimeError: Expected input at *args[0].shape[0] to be equal to 4, but got 5.", "SHAPE.refused"),
        (
            "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True",
            "GRAPH.recompile_limit",
        ),
        ("Failed to load method forward, error: 0x:14\nkernel 'aten::sort.values' not found.", "OP.unsupported"),
        ("SpecViolationError: \nOperator torch._ops.aten.sort.stable is not in Core ATen opset", "OP.unsupported"),
        ("NotImplementedError: FIX ME: Unimplemented call_function: target=<function sym_min>", "OP.unsupported"),
        ("INVALID_NODE: Invalid Node - node_softmax: at least 2 dimensions are required for input.", "OP.unsupported"),
        ("INVALID_NODE: Invalid Node - node_cat", "GRAPH.invalid"),
        ("MLIRError: Verification failed:\nerror: 'torch.aten.add_.Tensor' op operand #0", "GRAPH.invalid"),
        ("IndexError: Error invoking function: c/runtime/src/iree/hal/buffer_view.c:47: OUT_OF_RANGE", "RUN.failed"),
        ("InternalError: Check failed: (value >= 0) is false: cannot make uint", "COMPILER.internal"),
        ("NotImplementedError: No registered serialization name for <class 'max'> found.", "CONVERT.failed"),
        ('INVALID_NODE: creator && "Plugin not found, are the plugin name, version correct"', "OP.unsupported"),
        ("IBuilder::buildSerializedNetwork: API Usage Error (Network must have at least one output", "GRAPH.invalid"),
        ("NotImplementedError: Importing a program with an output of `None` is not yet implemented.", "CONVERT.failed"),
        ("NotImplementedError: OutputKind.USER_OUTPUT for <class 'SymFloatArgument'>", "CONVERT.failed"),
        ("ValueError: Unsupported output type in exported graph output: <class 'int'>", "CONVERT.failed"),
        ("ValueError: Exported graph produced no Relax outputs", "CONVERT.failed"),
        ("Compilation failed: See diagnostics\nerror: 'math.absf' op operand #0 must be floating", "COMPILER.internal"),
        ("TypeError: Pair.forward() missing 1 required positional argument: 'y'", "INPUT.misfit"),
        ("TypeError: Pair.forward() takes 2 positional arguments but 3 were given", "INPUT.misfit"),
        ("AssertionError: Guard failed: k == 2", "INPUT.misfit"),
        (
            "This is step 3/3 of exporting the model to ONNX.\n"
            "TypeError: aten_normal_tensor_float() missing 1 required positional argument: 'std'",
            "CONVERT.failed",
        ),
        ("the cat sat on the mat", "UNCLASSIFIED"),
    ],
)
def test_words_as_they_were_met(text: str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize(
    "text",
    [
        'File "/somewhere/case.py", line 12, in forward',
        "(case.py:12 in forward), code: return x",
        'loc("/somewhere/case.py":12:0): error: failed to legalize operation',
        'error: "/somewhere/case.py":12:0: op operand #0',
    ],
)
def test_the_users_line_in_every_form_that_tools_tell_it(text: str) -> None:
    assert reasons.where(RuntimeError(text), text, "models/case.py") == "case.py:12"
    assert reasons.where(RuntimeError(text), text, "models/other.py") is None
    assert reasons.where(RuntimeError(text), text, "models/ase.py") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "Unsupported: Data-dependent branching\n  Explanation: Detected data-dependent branching (e.g. "
            "`if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow.",
            "DDS.guard",
        ),
        (
            "Unsupported: Unsupported Tensor.item() call with capture_scalar_outputs=False\n"
            "  Explanation: Dynamo does not support tracing `Tensor.item()`",
            "DDS.item",
        ),
        (
            "Unsupported: Failed to trace builtin operator\n"
            "  Explanation: Dynamo does not know how to trace builtin operator `open`; it is not supported",
            "GRAPH.untraceable",
        ),
        ("Unsupported: torch.nn.functional.one_hot with data-dependent output shape\n\nfrom user code", "DDS.operator"),
        ("Unsupported: Parameter(data=...) not implemented\n\nfrom user code", "GRAPH.untraceable"),
        (
            "TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function <built-in function add>: "
            "got RuntimeError('Attempting to broadcast a dimension of length 3 at -1!')",
            "GRAPH.untraceable",
        ),
    ],
)
def test_dynamos_words_without_the_number_of_a_graph_break(text: str, code: str) -> None:
    """As torch 2.8 says them."""
    assert code_of(text) == code


def test_every_rule_names_a_code_of_the_table() -> None:
    assert {code for code, _ in reasons._RULES} | set(reasons._GRAPH_BREAKS) <= set(CODES)


def test_every_code_in_the_source_is_in_the_table() -> None:
    used = {
        code
        for package in ("models", "exporters", "runners")
        for path in (ROOT / package).rglob("*.py")
        for code in re.findall(r"\"([A-Z]{2,}\.[a-z0-9_]+)\"", path.read_text(encoding="utf-8"))
    }
    assert used <= set(CODES), used - set(CODES)


def test_codes_have_the_form_of_the_schema() -> None:
    assert all(re.fullmatch(r"[A-Z]+(\.[a-z0-9_]+)?", code) for code in CODES)


def test_the_users_line_is_never_one_of_another_file() -> None:
    text = 'File "/x/c05_greedy_nms.py", line 9, in f\nFile "/torch/_export/utils.py", line 4, in g'
    assert reasons.where(ValueError(), text, "/y/nms.py") is None
    assert reasons.where(ValueError(), text, "/y/c05_greedy_nms.py") == "c05_greedy_nms.py:9"
    assert reasons.where(ValueError(), "Caused by: (cases/a.py:35 in forward)", "/y/a.py") == "a.py:35"


def test_the_text_holds_what_caused_the_error() -> None:
    def raises() -> None:
        try:
            raise KeyError("inner words")
        except KeyError as error:
            raise RuntimeError("outer words") from error

    assert said_by(raises).text == "RuntimeError: outer words\nKeyError: 'inner words'"


def test_the_readme_holds_the_table_as_it_is() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("there is no README yet")
    text = readme.read_text(encoding="utf-8")
    between = re.search(r"<!-- reason codes -->\n(.*?)\n<!-- /reason codes -->", text, re.DOTALL)
    assert between, "the README has no <!-- reason codes --> … <!-- /reason codes -->"
    assert between[1].strip() == codes_table()
