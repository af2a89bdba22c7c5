"""Build a serialized engine from an ONNX file, by TensorRT or TensorRT-RTX: their Python API is the same.

`request.options["module"]` names the package, `tensorrt` or `tensorrt_rtx`. TensorRT-RTX builds without a
device too, for the compute capability that `request.options["sm"]` names.

https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/
https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.exporter import Finding, Request
from exporters.onnx_model import OnnxModel

STAGE = "build"

DEFAULT_SM = "8.9"
"""Built for where no device says otherwise: the L40S."""

_BITS = {
    # ONNX's names of dtypes, then TensorRT's where they differ
    "FLOAT": 32, "DOUBLE": 64, "FLOAT16": 16, "BFLOAT16": 16, "FLOAT8E4M3FN": 8, "INT4": 4, "INT8": 8,
    "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64, "BOOL": 8,
    "HALF": 16, "BF16": 16, "FP8": 8,
}  # fmt: skip


class TensorrtError(Exception):
    """TensorRT refused; the message holds its own words whole."""


@dataclass(frozen=True)
class TensorrtEngine:
    """A serialized engine. `sm` is the compute capability it was built for, such as "8.9"; None is the one
    of this machine's device."""

    path: Path
    model: OnnxModel
    module: str
    sm: str | None


def export(source: OnnxModel, request: Request) -> TensorrtEngine:
    """Parse the file into a strongly typed network (dtypes are the file's own) and build `model.engine`.

    Raises TensorrtError with the errors of parser or builder, ValueError for an SM that the package does
    not know. Tensors that the parser narrowed without a word become the finding `DTYPE.narrowed`.
    """
    module = request.options["module"]
    trt = importlib.import_module(module)
    sm = target(trt, request.options.get("sm"))
    log = logger(trt)
    log.lines.clear()

    builder = trt.Builder(log)
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if flag is None else 1 << int(flag))
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(source.path)):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise TensorrtError(f"{_about(trt)} does not parse the ONNX file\n{_parser_errors(errors, source, log)}")
    request.facts["layers"] = network.num_layers
    _compare_dtypes(network, source, request)
    _compare_draws(trt, network, request)

    config = builder.create_builder_config()
    if known := compute_capabilities(trt):
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.CURRENT if sm is None else known[sm], 0)
    _add_profile(builder, config, network, source, request)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise TensorrtError(f"{_about(trt)} does not build the engine\n{log.text()}{_traces(log.text(), source)}")
    path = request.directory / "model.engine"
    path.write_bytes(engine)
    request.facts |= {"artifact_bytes": engine.nbytes, "sm": sm or "this device's"}
    if warnings := log.text("WARNING"):
        request.facts["build_warnings"] = warnings
    return TensorrtEngine(path=path, model=source, module=module, sm=sm)


def target(trt: Any, without_device: str | None) -> str | None:
    """The compute capability to build for: None for that of the device that is here, where the package
    knows it; else `without_device`, 8.9 if that is None. Always None for TensorRT, which builds for its
    device only. Raises ValueError for one that the package cannot build for."""
    known = compute_capabilities(trt)
    if not known:
        return None
    asked = without_device or DEFAULT_SM
    if asked not in known:
        raise ValueError(f"{_about(trt)} builds for SM {', '.join(known)}, not for {asked!r}")
    return None if capability_here() in known else asked


def compute_capabilities(trt: Any) -> dict[str, Any]:
    """What TensorRT-RTX can build for on any machine, by name such as "8.9"; empty for TensorRT, which may
    know the enumeration but builds for its device only."""
    if trt.__name__ != "tensorrt_rtx":
        return {}
    members = trt.ComputeCapability.__members__.items()
    digits = {name.removeprefix("SM"): member for name, member in members if name.startswith("SM")}
    return {f"{name[:-1]}.{name[-1]}": member for name, member in digits.items()}


def capability_here() -> str | None:
    """The compute capability of torch's current CUDA device, None where there is none."""
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"


@functools.cache
def logger(trt: Any) -> Any:
    """The logger of this process: TensorRT keeps the first that it is given and ignores later ones.

    It prints nothing. `lines` are the (severity, message) pairs of warnings and errors since the last
    `clear()`, `text(severity)` the messages of one severity, errors by default.
    """

    class Logger(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[tuple[str, str]] = []

        def log(self, severity: Any, msg: str) -> None:
            if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR, trt.ILogger.WARNING):
                self.lines.append((severity.name, msg))

        def text(self, severity: str = "ERROR") -> str:
            return "\n".join(message for kind, message in self.lines if kind.endswith(severity))

    return Logger()


def _about(trt: Any) -> str:
    return f"{trt.__name__} {trt.__version__}"


def _parser_errors(errors: list[Any], source: OnnxModel, log: Any) -> str:
    """Each error with its code and node, what the log has besides, and where the node stands in the user's
    code: torch.onnx leaves the stack of each node in the file."""
    texts = []
    for error in errors:
        node = f"[{error.node_operator()} node {error.node_name()!r}, {error.func()}, {error.file()}:{error.line()}]"
        texts.append(f"{error.code().name}: {error.desc()} {node}")
    logged = [message for kind, message in log.lines if kind.endswith("ERROR")]
    texts += [message for message in logged if not any(error.desc() in message for error in errors)]
    return "\n".join(texts) + _traces(" ".join(error.node_name() for error in errors), source)


def _traces(text: str, source: OnnxModel) -> str:
    """The stacks of the nodes that a text names."""
    import onnx

    nodes = onnx.load(str(source.path), load_external_data=False).graph.node
    stacks = [
        f"\n\nStack of {node.name}:\n{entry.value.strip()}"
        for node in nodes
        if node.name and node.name in text
        for entry in node.metadata_props
        if entry.key == "pkg.torch.onnx.stack_trace"
    ]
    return "".join(stacks)


def _compare_dtypes(network: Any, source: OnnxModel, request: Request) -> None:
    """TensorRT has no float64: its parser makes such tensors FLOAT without a word."""
    import onnx

    graph = onnx.load(str(source.path), load_external_data=False).graph
    name_of = onnx.TensorProto.DataType.Name
    asked = {tensor.name: name_of(tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        asked[value.name] = name_of(value.type.tensor_type.elem_type)
    held = {tensor.name: tensor.dtype.name for tensor in map(network.get_input, range(network.num_inputs))}
    for layer in map(network.get_layer, range(network.num_layers)):
        for tensor in map(layer.get_output, range(layer.num_outputs)):
            held[tensor.name] = tensor.dtype.name
            held.setdefault(layer.name, tensor.dtype.name)  # a constant's tensor is named after its layer
    narrowed = Counter(
        f"{asked[name]} to {dtype}"
        for name, dtype in held.items()
        if name in asked and _BITS.get(dtype, 0) < _BITS.get(asked[name], 0)
    )
    if narrowed:
        request.facts["narrowed_tensors"] = dict(narrowed)
        counts = ", ".join(f"{count} tensors from {change}" for change, count in narrowed.items())
        request.findings.append(Finding("partial", "DTYPE.narrowed", f"narrowed without a word: {counts}"))


def _compare_draws(trt: Any, network: Any, request: Request) -> None:
    """TensorRT's parser makes each random node a layer that fills a tensor; one that has none is a constant."""
    asked = request.facts.get("random_nodes", 0)
    fills = [layer for layer in map(network.get_layer, range(network.num_layers)) if layer.type == trt.LayerType.FILL]
    for layer in fills:
        layer.__class__ = trt.IFillLayer  # as the bindings cast a layer to its kind
    random = (trt.FillOperation.RANDOM_UNIFORM, trt.FillOperation.RANDOM_NORMAL)
    held = sum(fill.operation in random for fill in fills)
    if asked:
        request.facts["random_layers"] = held
    if held < asked:
        text = f"{asked - held} of {asked} random nodes are no random layer of the network: they draw once and for all"
        request.findings.append(Finding("wrong", "RNG.frozen", text))


def _add_profile(builder: Any, config: Any, network: Any, source: OnnxModel, request: Request) -> None:
    """Dynamic inputs get one profile: from the least size that the exported program allows, at the
    example's best, to twice the example's or the program's own limit. Inputs whose values become sizes
    get one for their values: from 0 to twice the example's."""
    examples = source.flatten(request.inputs, request.device)
    profile = builder.create_optimization_profile()
    limits = {}
    for tensor in map(network.get_input, range(network.num_inputs)):
        best = tuple(examples[tensor.name].shape)
        if -1 in tuple(tensor.shape):
            pairs = list(zip(best, source.bounds[tensor.name], strict=True))
            least = tuple(max(low, min(size, 1)) for size, (low, _) in pairs)
            most = tuple(size if low == high else min(2 * size, high or 2 * size) for size, (low, high) in pairs)
            profile.set_shape(tensor.name, least, best, most)
            limits[tensor.name] = {"min": least, "opt": best, "max": most}
        if tensor.is_shape_tensor:
            values = tuple(examples[tensor.name].flatten().tolist())
            least, most = tuple(min(0, value) for value in values), tuple(max(1, 2 * value) for value in values)
            profile.set_shape_input(tensor.name, least, values, most)
            limits[f"values of {tensor.name}"] = {"min": least, "opt": values, "max": most}
    if limits:
        config.add_optimization_profile(profile)
        request.facts["profile"] = limits
