"""OpenVINO on the CPU: models by road in, the first that compiles is run.

A call is the one of OpenVINO's documentation, `compiled_model(inputs)`: inputs share memory with torch, and
outputs are copied out of the request (`share_outputs` is off by default), so a later call leaves them alone.

https://docs.openvino.ai/2026/openvino-workflow/running-inference.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.exporter import Request, Unavailable
from runners.runner import Engine

if TYPE_CHECKING:
    import torch

    from exporters.openvino_model import OpenVINOModel


def probe(request: Request) -> None:
    """OpenVINO must import and see a CPU."""
    provide = "pip install -c constraints.txt '.[openvino]'"
    try:
        import openvino

        devices = openvino.Core().available_devices
    except ModuleNotFoundError as error:
        raise Unavailable("ENV.no_package", str(error), provide) from error
    except Exception as error:
        raise Unavailable("ENV.broken_package", f"openvino does not work: {error}", provide) from error
    if "CPU" not in devices:
        raise Unavailable("ENV.no_device", f"OpenVINO sees the devices {devices}, no CPU", provide)


def load(source: dict[str, OpenVINOModel], request: Request) -> Engine:
    """Compile the models in turn until one is taken: the facts tell its road and its operators."""
    from exporters.openvino_model import NoRoad, first_line

    failures: dict[str, Exception] = {}
    for road, model in source.items():
        try:
            engine = _compile(model, request)
        except Exception as error:  # what one road's model meets, another's may not
            failures[road] = error
            request.facts.setdefault("roads", {})[road] = first_line(error)
        else:
            request.facts.update({**model.facts, **request.facts, "road": road})
            request.findings += model.findings
            return engine
    if len(failures) == 1:
        raise next(iter(failures.values()))
    raise NoRoad(failures)


def _compile(source: OpenVINOModel, request: Request) -> Engine:
    import openvino
    import torch

    compiled = openvino.Core().compile_model(source.model, "CPU")
    openvino.serialize(source.model, request.directory / "model.xml", request.directory / "model.bin")
    request.facts["artifact_bytes"] = sum(
        (request.directory / f"model.{part}").stat().st_size for part in ("xml", "bin")
    )
    request.facts["operators"] = len(source.model.get_ops())
    request.facts["inference_precision"] = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    is_bfloat16 = [port.element_type == openvino.Type.bf16 for port in compiled.outputs]

    def call(*inputs: Any) -> Any:
        results = compiled([_array(tensor) for tensor in source.flatten(inputs)])
        outputs = [torch.from_numpy(results[port]) for port in range(len(is_bfloat16))]
        # OpenVINO hands bfloat16 out as float16 of the same bits, NumPy having no bfloat16.
        return source.restore(
            [output.view(torch.bfloat16) if bits else output for output, bits in zip(outputs, is_bfloat16, strict=True)]
        )

    return Engine(call)


def _array(tensor: torch.Tensor) -> Any:
    """The tensor's memory as OpenVINO takes it; NumPy has no bfloat16, so its bits go as int16."""
    import openvino
    import torch

    tensor = tensor.detach()
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    bits = tensor.contiguous().view(torch.int16).numpy()
    return openvino.Tensor(bits, openvino.Shape(list(tensor.shape)), openvino.Type.bf16)
