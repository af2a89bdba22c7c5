"""One attempt: a workload taken down one road, stage by stage, to a verdict.

The study's workers and the scripts that replay a cell run this same code.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from exporters.exporter import Finding, Request, Stages, Unavailable
from models.case import CaseModule, Variant, Workload
from runners.backends import BACKENDS
from runners.runner import Built, Loaded
from runners.study import audit, compare
from runners.study.environment import packages
from runners.study.inputs import inputs_of, size_of, to_device
from runners.study.reasons import reason_of
from runners.study.record import ALSO, STAGES, Reason, Stage, StageOutcome, Verdict

EAGERS_OWN = ("MEMORY.host", "MEMORY.device", "INPUT.misfit")
"""Codes that say of eager what they say of a compiler; whatever else it raises is the variant's own failure."""

POOL_BYTES = 1 << 30
POOL_SIZE = 8


class Road(msgspec.Struct, kw_only=True):
    """What a worker must know of a backend; `runner` and `exporters` are names of modules, `interpreter` the path
    of a Python of the backend's own."""

    name: str
    runner: str
    exporters: tuple[str, ...]
    device: str
    options: dict[str, Any] = {}
    interpreter: str | None = None
    distributions: tuple[str, ...] = ()


def road(name: str, options: Mapping[str, Any], has_gpu: bool) -> Road:
    """The road of a backend on this machine: on the GPU if there is one and the backend can use it."""
    backend = BACKENDS[name]
    return Road(
        name=name,
        runner=f"runners.{backend.runner}",
        exporters=tuple(f"exporters.{exporter}" for exporter in backend.exporters),
        device="cuda" if has_gpu and backend.device != "cpu" else "cpu",
        options={**backend.options, **options},
        distributions=backend.distributions,
    )


class Outcome(msgspec.Struct, kw_only=True):
    """What an attempt came to; `stages` holds those that the road has."""

    verdict: Verdict
    stage: Stage | None = None
    reason: Reason | None = None
    stages: dict[Stage, StageOutcome] = {}
    facts: dict[str, Any] = {}


class Attempt:
    """One workload on one road."""

    def __init__(
        self,
        case: CaseModule,
        variant: Variant,
        road: Road,
        workload: Workload,
        on_stage: Callable[[str], None],
        directory: Path | None = None,
        verified: bool = True,
        kept_inputs: Path | None = None,
    ) -> None:
        self.case, self.variant, self.road, self.workload = case, variant, road, workload
        self.directory, self.verified, self.kept_inputs = directory, verified, kept_inputs
        self.stages = Stages(on_stage)
        self.call: Loaded | None = None
        self.request: Request | None = None
        self._exporters = [importlib.import_module(name) for name in road.exporters]
        self._runner = importlib.import_module(road.runner)

    def outcome(self) -> Outcome:
        from runners.study.verify import Broke

        try:
            self._travel()
        except Broke as broke:
            self.stages.enter("run")
            reason = self._reason(broke.error)
            return self._end("rejected", msgspec.structs.replace(reason, text=f"at {broke.input_name}: {reason.text}"))
        except Unavailable as missing:
            return self._end("unavailable", Reason(missing.code, str(missing)))
        except Built as built:
            return self._built(built)
        except (Exception, SystemExit) as error:  # the worker lives on, whoever wanted to leave
            if self.stages.current is None:  # the module could not even be made
                self.stages.enter("run" if self.road.name == "eager" else "capture")
            return self._end("rejected", self._reason(error))
        assert self.request is not None
        finding = _worst(self.request.findings)
        if finding is None:
            return self._end("accepted", None)
        others = [f"{ALSO}{other.code}: {other.text}" for other in self.request.findings if other.code != finding.code]
        return self._end(finding.verdict, Reason(finding.code, "".join([finding.text, *others])))

    def _reason(self, error: BaseException) -> Reason:
        reason = reason_of(error, self.case.case.path)
        if self.road.name == "eager" and reason.code not in EAGERS_OWN:
            return msgspec.structs.replace(reason, code="EAGER.failed")
        return reason

    def _built(self, built: Built) -> Outcome:
        """What was seen in the graph or the engine counts without a run: a fault there is one on every device."""
        assert self.request is not None
        finding = _worst(self.request.findings)
        if finding and finding.verdict == "wrong":
            return self._end("wrong", Reason(finding.code, f"{finding.text}; not run: {built}"))
        seen = [f"{finding.code}: {finding.text}" for finding in self.request.findings]
        return self._end("built", Reason("BUILT.no_run", "\n".join([str(built), *seen])))

    def pool(self) -> list[tuple[Any, ...]]:
        """Inputs for timing, on the device: several, so that no call sees its predecessor's; fewer when large."""
        assert self.request is not None
        count = max(2, min(POOL_SIZE, POOL_BYTES // max(size_of(self.request.inputs), 1)))
        return [self.request.inputs, *(self._inputs(seed) for seed in range(1, count))]

    def _travel(self) -> None:
        import torch

        from runners.study.verify import Subject, verify

        torch.manual_seed(self.workload.seed or 0)
        if self.road.device == "cuda" and torch.cuda.current_stream() == torch.cuda.default_stream():
            torch.cuda.set_stream(torch.cuda.Stream())  # ONNX Runtime and TensorRT fence the default stream
        _reset_peak_memory()
        is_eager = self.road.name == "eager"
        module = self.case.build(self.variant, self.workload).to(self.road.device)
        request = self.request = Request(
            inputs=self._inputs(0),
            device=self.road.device,
            directory=Path(tempfile.mkdtemp(prefix="gauntlet-cell-", dir=self.directory)),
            dynamic_shapes=self.case.dynamic_dims(self.variant),
            options=self.road.options,
            stages=self.stages,
        )
        if self.road.interpreter:
            request.facts["packages"] = packages(["torch", *self.road.distributions])
        request.facts["input_bytes"] = size_of(request.inputs)
        floor_bytes = self.case.optional("floor_bytes")
        if floor_bytes is not None:
            request.facts["floor_bytes"] = floor_bytes(self.workload)
        began = time.perf_counter()
        self._runner.probe(request)
        if self._exporters:  # every export starts with a capture; its import is charged to no stage
            import torch._dynamo
            import torch.export
        request.facts["import_seconds"] = round(time.perf_counter() - began, 6)
        self.stages.enter("run" if is_eager else "capture")
        source = self._export(module, request)
        if not is_eager:
            self.stages.enter("build")
        began = time.perf_counter()
        call = self._runner.load(source, request)
        if self._exporters:
            request.facts["load_seconds"] = round(time.perf_counter() - began, 6)
        arguments = compare.clone(request.inputs)
        self.stages.enter("run")
        began = time.perf_counter()
        call(*arguments)
        if self.road.device == "cuda":
            torch.cuda.synchronize()
        request.facts["first_call_seconds"] = round(time.perf_counter() - began, 6)
        self.call = call
        if not self.verified:
            return
        self.stages.enter("verify")
        subject = Subject(
            call=call,
            module=module,
            reload=(lambda: self._runner.load(source, _aside(request))) if self._exporters else None,
            rebuild=(lambda: self._rebuild(module, _aside(request))) if self._exporters else None,
            is_eager=is_eager,
            other_shapes=self._takes_other_shapes(request),
        )
        # Dynamo guards on the number of threads: on its roads another number would be another compilation.
        with _one_thread() if is_eager or self._exporters else contextlib.nullcontext():
            verify(subject, self.case, self.variant, self.workload, request)
        self._inspect(call, request)
        request.facts["peak_memory_bytes"] = _peak_memory()
        self._audit(call, request)

    def _export(self, module: Any, request: Request) -> Any:
        """The artifact of the last exporter, the module itself where there is none."""
        for exporter in self._exporters:
            request.stages.enter(exporter.STAGE)
            module = exporter.export(module, request)
        return module

    def _rebuild(self, module: Any, request: Request) -> Loaded:
        loaded: Loaded = self._runner.load(self._export(module, request), request)
        return loaded

    def _inspect(self, call: Loaded, request: Request) -> None:
        """What really ran. Where that cannot be seen, of a new version say, the answer is no less right, but nothing
        says that the engine gave it."""
        try:
            call.inspect()
        except Exception as error:
            request.findings.append(Finding("partial", "FALLBACK.unseen", f"{type(error).__name__}: {error}"))

    def _takes_other_shapes(self, request: Request) -> bool:
        """Roads that capture anew, and exports of dynamic dimensions. Of a sized case, which has its other sizes
        as workloads, only the road that is asked for dynamic shapes is tried at another N: each compiles anew."""
        if self._exporters:
            return request.dynamic_shapes is not None
        return self.case.case.sizes is None or bool(self.road.options.get("dynamic"))

    def _audit(self, call: Loaded, request: Request) -> None:
        """Host waits: forecast for eager from its operators, on the CPU; counted on CUDA for every road."""
        try:
            if self.road.name == "eager":
                module = self.case.build(self.variant, self.workload)
                arguments = self.case.inputs(self.variant, self.workload)
                request.facts.update(audit.forecast(module, arguments, self.case.case.path).facts())
            if self.road.device == "cuda":
                request.facts.update(audit.count(call, compare.clone(request.inputs)).facts())
        except Exception as error:  # a module that cannot be watched is no worse for it
            request.facts["audit_error"] = f"{type(error).__name__}: {error}"

    def _inputs(self, seed: int) -> tuple[Any, ...]:
        arguments = inputs_of(self.case, self.variant, self.workload, seed, self.kept_inputs)
        return to_device(arguments, self.road.device)

    def _end(self, verdict: Verdict, reason: Reason | None) -> Outcome:
        self.stages.stop()
        if self.request and verdict != "unavailable":
            self.request.facts.setdefault("peak_memory_bytes", _peak_memory())
        failed = self.stages.current if verdict in ("rejected", "wrong") else None
        stage: Any = None if verdict == "accepted" else self.stages.current
        return Outcome(
            verdict=verdict,
            stage=stage,
            reason=reason,
            stages=stage_outcomes({} if verdict == "unavailable" else self.stages.seconds, failed),
            facts=dict(self.request.facts) if self.request else {},
        )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Run eager on one thread: other lanes are at work, and threads that wait for each other would spin."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def stage_outcomes(seconds: dict[str, float], failed: str | None) -> dict[Stage, StageOutcome]:
    """The six stages: those entered are `ok` but for the failed one, the others were not reached."""
    return {
        stage: StageOutcome("failed" if stage == failed else "ok", round(seconds[stage], 6))
        if stage in seconds
        else StageOutcome("not_reached")
        for stage in STAGES
    }


def _aside(request: Request) -> Request:
    """The same request once more, with a folder, facts and findings of its own: the cell has them already."""
    directory = Path(tempfile.mkdtemp(prefix="anew-", dir=request.directory))
    return replace(request, directory=directory, facts={}, findings=[], stages=Stages())


def _worst(findings: list[Finding]) -> Finding | None:
    """The first wrong finding, else the first partial one."""
    return next((finding for finding in findings if finding.verdict == "wrong"), findings[0] if findings else None)


def _reset_peak_memory() -> None:
    """Let the kernel count this process's peak anew (proc(5), clear_refs); without that right it goes on."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int | None:
    """The most bytes that were resident since the reset, None where the kernel does not tell."""
    with contextlib.suppress(OSError):
        match = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        return int(match.group(1)) << 10 if match else None
    return None
