"""torch.compile with Inductor, as the user calls it.

`torch.compile` is lazy: the first call captures with Dynamo and builds with Inductor, in turn for every
piece of a broken graph. The stages are told apart by Dynamo's own callbacks and by the moment Inductor is
handed a graph. https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from exporters.exporter import Finding, Request
from exporters.kernels import counted_kernels
from runners.runner import Engine, require_cuda

if TYPE_CHECKING:
    from torch import nn

CUDA_GRAPH_WARMUP = 3
"""Calls before a CUDA graph is replayed: one warms up, one records, one replays."""


def probe(request: Request) -> None:
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    know_processor()
    if request.options.get("mode") == "reduce-overhead":
        require_cuda()


def prepare() -> None:
    """Let Inductor make what it keeps for all later compilations: what it knows of the processor, and precompiled C++
    headers or Triton's launcher."""
    import torch
    from torch._inductor import cpu_vec_isa

    _known_processor().write_text(str(cpu_vec_isa.pick_vec_isa()))
    torch.compile(torch.neg)(torch.ones(8, device=compiles_for()))


def know_processor() -> None:
    """Let Inductor choose its vector instructions; no cell is charged with that.

    Every process would try all that the processor names, each in a Python of its own. Where `prepare` has seen that
    the choice is the one made without trying, they are taken untried.
    """
    from torch._inductor import config, cpu_vec_isa

    if _known_processor().exists() and hasattr(config.cpp, "vec_isa_ok"):
        config.cpp.vec_isa_ok = True
        if str(cpu_vec_isa.pick_vec_isa()) == _known_processor().read_text():
            return
        config.cpp.vec_isa_ok = None
        cpu_vec_isa.valid_vec_isa_list.cache_clear()
    cpu_vec_isa.pick_vec_isa()


def _known_processor() -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / "vector_instructions.txt"


def compiles_for() -> str:
    """The device that Inductor compiles for on this machine."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def load(source: nn.Module, request: Request, backend: str = "inductor") -> Engine:
    import torch
    from torch._dynamo.utils import counters
    from torch.utils._pytree import tree_map

    torch._dynamo.reset()
    counters.clear()
    options = {name: request.options[name] for name in ("fullgraph", "dynamic", "mode") if name in request.options}
    compiled = torch.compile(source, backend=backend, **options)
    graphs = "mode" in options
    limit = _LimitWatch()
    logger = logging.getLogger("torch._dynamo.convert_frame")
    logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _LimitWatch)] + [limit]

    def call(*inputs: Any) -> Any:
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        return compiled(*inputs)

    def inspect() -> None:
        _report(request, limit)

    def copies() -> Any:
        return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, request.inputs)

    # a CUDA graph is replayed by one launch, whatever it holds
    counting = nullcontext() if graphs else counted_kernels(request.facts)
    with _stages_of_first_call(request), counting:
        for _ in range(CUDA_GRAPH_WARMUP if graphs else 1):
            call(*copies())
    return Engine(call, inspect)


@contextmanager
def _stages_of_first_call(request: Request) -> Iterator[None]:
    """Enter `capture` when Dynamo starts on a frame, `build` while the backend compiles, `run` after."""
    import torch
    from torch._dynamo.callback import callback_handler
    from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
    from torch._dynamo.output_graph import OutputGraph

    stages = request.stages
    call_backend = OutputGraph.call_user_compiler

    def call_user_compiler(graph: Any, *arguments: Any, **options: Any) -> Any:
        stages.enter("build")
        compiled = call_backend(graph, *arguments, **options)
        stages.enter("capture")
        return compiled

    def start(*about: Any) -> None:
        if _of_dynamo(about):
            stages.enter("capture")

    def end(*about: Any) -> None:
        if _of_dynamo(about):
            stages.enter("run")

    callback_handler.register_start_callback(start)
    callback_handler.register_end_callback(end)
    stages.enter("capture")
    try:
        with mock.patch.object(OutputGraph, "call_user_compiler", call_user_compiler):
            yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    except BackendCompilerFailed:
        stages.enter("build")
        raise
    except Exception as error:
        if isinstance(error, TorchDynamoException) or _raised_by_capture(error):
            stages.enter("capture")
        raise
    finally:
        callback_handler.remove_start_callback(start)
        callback_handler.remove_end_callback(end)


def _raised_by_capture(error: Exception) -> bool:
    """Whether an error that is not Dynamo's own, of symbolic shapes say, came up while it captured: the end of that
    is told before the error is."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "torch._dynamo.convert_frame" for frame, _ in frames)


def _of_dynamo(about: tuple[Any, ...]) -> bool:
    """Whether a callback tells of Dynamo's own work; newer torch calls it for recorded CUDA graphs too."""
    trigger = getattr(about[0], "callback_trigger", None) if about else None
    return trigger is None or trigger.name == "DYNAMO"


class _LimitWatch(logging.Handler):
    """Hears Dynamo say that it gives up compiling a function; it tells nobody else."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "recompile_limit" in message or "cache_size_limit" in message:
            self.text = message


def _recompilations() -> list[str]:
    """Dynamo's own words on why it compiled a function again, one a recompilation."""
    from torch._dynamo.utils import guard_failures

    return [str(reason) for reasons in guard_failures.values() for reason in reasons]


def _report(request: Request, limit: _LimitWatch) -> None:
    from torch._dynamo.utils import counters

    graphs = int(counters["stats"]["unique_graphs"])
    breaks = {str(reason): int(count) for reason, count in counters["graph_break"].items()}
    skipped = [str(reason) for reason in counters["unimplemented"]]
    frames = int(counters["frames"]["ok"])
    request.facts["graphs"] = graphs
    request.facts["operators_captured"] = int(counters["stats"]["calls_captured"])
    request.facts["recompilations"] = _recompilations()
    request.facts["frames_compiled"] = frames
    request.facts["graph_breaks"] = sum(breaks.values())
    if limit.text:
        request.findings.append(Finding("partial", "GRAPH.recompile_limit", limit.text))
    if breaks:
        reasons = "\n\n".join(f"{count} × {reason}" for reason, count in breaks.items())
        request.findings.append(Finding("partial", "GRAPH.breaks", f"{sum(breaks.values())} graph breaks:\n{reasons}"))
    elif skipped:
        text = f"Dynamo left a whole function to eager: {skipped[-1]}"
        request.findings.append(Finding("partial", "GRAPH.breaks", text))
    elif graphs == 0:
        request.findings.append(Finding("partial", "GRAPH.breaks", "no graph was captured: all of it ran in eager"))
