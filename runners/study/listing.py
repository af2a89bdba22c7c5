"""`--list`: every case, variant and backend, and what is missing for it; nothing is imported to tell."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from models.case import catalogue
from runners.backends import BACKENDS, Backend
from runners.study.device import gpu_facts
from runners.study.environment import installed


def show_list(console: Console) -> None:
    cases = Table(Column("case", no_wrap=True), "variants", "source", title="Cases", title_justify="left")
    for case in catalogue():
        variants = ", ".join(f"{variant.name} ({variant.kind})" for variant in case.variants)
        cases.add_row(case.name, variants, case.source)
    console.print(cases)
    gpu = gpu_facts() is not None
    name = Column("backend", no_wrap=True)
    backends = Table(name, "here", "to provide what is missing", title="Backends", title_justify="left")
    for backend in BACKENDS.values():
        here, provide = availability(backend, gpu)
        backends.add_row(backend.name, here, Text(provide))
    console.print(backends)


def availability(backend: Backend, has_gpu: bool) -> tuple[str, str]:
    """Whether a backend can be tried here, and the command that would bring what it lacks."""
    if backend.requirements:
        return "in an environment of its own", backend.provide
    missing = [name for name in ("torch", *backend.distributions) if installed(name) is None]
    if missing:
        return f"no: {', '.join(missing)} not installed", backend.provide
    if backend.device == "cuda" and not has_gpu:
        return "no: needs an NVIDIA GPU", "a machine with an NVIDIA GPU and its driver"
    return "yes", ""
