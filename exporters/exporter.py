"""The protocol of exporters: module and workload in, artifact out. One format a file.

An exporter is a module of this package that defines

    STAGE = "capture" | "convert" | "build"
    def export(source, request: Request) -> artifact

where `source` is the `nn.Module` or the artifact of the exporter before it. It imports its compiler
inside `export`, raises the compiler's own error when it refuses, and raises `Unavailable` when the
package or the device is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


class Unavailable(Exception):
    """A package or a device is missing. `code` is the reason's code (`ENV.…`), `text` what trying it said,
    `provide` the command that would bring it."""

    def __init__(self, code: str, text: str, provide: str) -> None:
        super().__init__(f"{text} (to provide it: {provide})")
        self.code = code
        self.text = text
        self.provide = provide


@dataclass(frozen=True)
class Finding:
    """What an inspection found in a cell that raised nothing: it makes the cell `partial` or `wrong`."""

    verdict: Literal["partial", "wrong"]
    code: str
    text: str


class Stages:
    """A stopwatch over stages. Time belongs to the stage that was entered last; entering a stage again
    adds to it. `on_enter(stage)` tells the parent, which holds the limits."""

    def __init__(self, on_enter: Callable[[str], None] = lambda stage: None) -> None:
        self.seconds: dict[str, float] = {}
        self.current: str | None = None
        self._on_enter = on_enter
        self._since = 0.0

    def enter(self, stage: str) -> None:
        self.stop()
        self._on_enter(stage)
        self.current = stage
        self._since = time.perf_counter()
        self.seconds.setdefault(stage, 0.0)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is tried for its facts alone: its time belongs to no stage."""
        self.stop()
        try:
            yield
        finally:
            self._since = time.perf_counter()

    def stop(self) -> None:
        """Close the books of the current stage; it stays current."""
        if self.current is not None:
            now = time.perf_counter()
            self.seconds[self.current] += now - self._since
            self._since = now


@dataclass
class Request:
    """What is asked of exporters and runners for one cell.

    `inputs` are the example arguments on `device`; `dynamic_shapes` is what torch.export takes, or None;
    `directory` is an empty folder of this cell's own; `options` are the backend's; `facts` is filled in
    by whoever learns one (layers, nodes per provider, artifact bytes, …); `findings` collects what keeps
    a cell that raised nothing from being `accepted`.
    """

    inputs: tuple[Any, ...]
    device: str
    directory: Path
    dynamic_shapes: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    stages: Stages = field(default_factory=Stages)
