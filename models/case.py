"""What a case is: a computation under study, its variants, its inputs, its contract. One case a file.

A case file is an ordinary module that imports torch and nothing of ours but this package. It may define

================================  ==============================================================
classes derived from nn.Module    the variants
`CASE`                            a literal: title, source, variants, sizes and what is special
`example_inputs()`                a *fixed* case: the inputs, new on every call
`<variant>_inputs()`              inputs of a variant that takes others than the example
`more_inputs()`                   further tuples; all must come out as in eager
`dynamic_dims()`                  per input, the dimensions meant to vary, as {dimension: name}
`EXPECTED`, `EXPECTED_SHAPES`,    class name -> what its inputs must give in eager
`EXPECTED_DTYPES`
`inputs(workload, seed)`          a *sized* case: inputs for any workload, new densities per seed
`more_inputs(workload)`           a sized case's further inputs, as (name, tuple) pairs; best a generator
`faults(arguments, outputs,        what one call's outputs break of the contract, as a list of `Fault`
workload)`
`statistics(call, reference,       what many draws break of it, and each test's p-value and power
workload, device, seconds)`
`floor_bytes(workload)`           bytes that any implementation must move
================================  ==============================================================

A variant of a sized case is built as `Variant(workload.k)`; if it draws, it has a method
`noise(*inputs) -> Tensor`, and its `forward` takes that tensor as last argument or draws it itself.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["variable", "static", "unknown"]
Noise = Literal["inside", "input"]

CATALOGUE = Path(__file__).parent


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The concrete inputs of a cell: items N, sample size K, batch B, feature width D, dtypes, share of
    positives, where randomness comes from, seed. All None for a case that brings its own inputs."""

    n: int | None = None
    k: int | None = None
    batch: int | None = None
    dim: int | None = None
    dtype: str | None = None
    label_dtype: str | None = None
    positives: float | None = None
    noise: Noise | None = None
    seed: int | None = None

    def __str__(self) -> str:
        named = {"N": self.n, "B": self.batch, "noise": self.noise}
        return " ".join(f"{name}={value}" for name, value in named.items() if value is not None) or "as given"


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write a case. `rewrites` names the variable variant that a static one replaces."""

    name: str
    class_name: str
    kind: Kind
    rewrites: str | None = None


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How a sized case turns N into a workload; `quick` and `full` are the N of the two profiles."""

    quick: tuple[int, ...] = (1_000, 10_000, 100_000)
    full: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    items_per_sample: int | None = 10
    batches: tuple[int | None, ...] = (None, 32)
    dim: int | None = 16
    dtype: str | None = "float32"
    label_dtype: str | None = "int64"
    positives: float | None = 0.5
    draws: bool = False

    def workload(self, n: int, batch: int | None, noise: Noise | None) -> Workload:
        return Workload(
            n=n,
            k=None if self.items_per_sample is None else n // self.items_per_sample,
            batch=batch,
            dim=self.dim,
            dtype=self.dtype,
            label_dtype=self.label_dtype,
            positives=self.positives,
            noise=noise if self.draws else None,
            seed=0,
        )


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case as the study plans it, known without importing torch. `sizes` is None for a fixed case."""

    name: str
    path: str
    title: str
    source: str
    variants: tuple[Variant, ...]
    sizes: Sizes | None = None

    def variant(self, name: str) -> Variant:
        return next(variant for variant in self.variants if variant.name == name)


class BrokenCase(Exception):
    """A case file that cannot be studied; the message is one sentence that names the file and the fault."""


class Input(msgspec.Struct, frozen=True):
    """A named tuple of arguments for one call."""

    name: str
    arguments: tuple[Any, ...]


class Fault(msgspec.Struct, frozen=True):
    """One breach of a contract: a reason code and what was seen."""

    code: str
    text: str


def catalogue() -> list[Case]:
    """Our own cases: every file beside this one that declares `CASE`, read without being imported."""
    cases = []
    for path in sorted(CATALOGUE.glob("*.py")):
        header = _header(path)
        if header:
            cases.append(_describe(path, header, []))
    return cases


def load(path: str | Path) -> CaseModule:
    """Import the case file `path`; raises BrokenCase when it does not parse, does not run, or has no variant."""
    path = Path(path)
    name = f"gauntlet_case_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BrokenCase(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BrokenCase(f"{path} does not parse: {error.msg} (line {error.lineno})") from error
    except BaseException as error:  # a case file may raise anything, SystemExit included
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BrokenCase(f"{path} raises when imported: {_one_line(error)}") from error
    return CaseModule(path, module)


class CaseModule:
    """An imported case file: what a lane asks of it."""

    def __init__(self, path: Path, module: types.ModuleType) -> None:
        self.module = module
        self.header: dict[str, Any] = getattr(module, "CASE", {})
        if not isinstance(self.header, dict):
            raise BrokenCase(f"{path} has a CASE that is no dictionary but {type(self.header).__name__}")
        self.case = _describe(path, self.header, [cls.__name__ for cls in _module_classes(module)])
        if not self.case.variants:
            raise BrokenCase(f"{path} defines no class derived from nn.Module with a forward")
        required = "inputs" if self.case.sizes else "example_inputs"
        if not callable(getattr(module, required, None)):
            raise BrokenCase(f"{path} does not define {required}()")
        for name in ("EXPECTED", "EXPECTED_SHAPES", "EXPECTED_DTYPES"):
            if not isinstance(stated := getattr(module, name, {}), dict):
                raise BrokenCase(f"{path} has an {name} that is no dictionary but {type(stated).__name__}")
        for variant in self.case.variants:
            if not callable(getattr(module, variant.class_name, None)):
                raise BrokenCase(f"{path} has a CASE that names the class {variant.class_name}, which is not there")

    def build(self, variant: Variant, workload: Workload) -> nn.Module:
        """The variant as a module in evaluation mode."""
        cls = getattr(self.module, variant.class_name)
        module: nn.Module = cls(workload.k) if self.case.sizes and workload.k is not None else cls()
        return module.eval()

    def inputs(self, variant: Variant, workload: Workload, seed: int = 0) -> tuple[Any, ...]:
        """The arguments of one call; for a fixed case they do not depend on the seed."""
        if self.case.sizes:
            arguments = tuple(self.module.inputs(workload, seed))
            return self._with_noise(variant, workload, arguments, seed)
        function = self._own_inputs(variant) or self.module.example_inputs
        arguments = function()
        if not isinstance(arguments, tuple):
            raise BrokenCase(
                f"{self.case.path}: {function.__name__}() must return a tuple, not {type(arguments).__name__}"
            )
        return arguments

    def more_inputs(self, variant: Variant, workload: Workload) -> Iterable[Input]:
        """Further arguments that must come out as in eager; none for a variant with inputs of its own. Those of
        a fixed case are made at once, those of a sized case one by one as they are asked for."""
        function = getattr(self.module, "more_inputs", None)
        if function is None or self._own_inputs(variant):
            return []
        if self.case.sizes:
            return (
                Input(name, self._with_noise(variant, workload, tuple(arguments), 1000 + index))
                for index, (name, arguments) in enumerate(function(workload))
            )
        further = list(function())
        for arguments in further:
            if not isinstance(arguments, (tuple, list)):
                raise BrokenCase(
                    f"{self.case.path}: more_inputs() must return a list of tuples, not of {type(arguments).__name__}"
                )
        return [Input(f"more_inputs()[{index}]", tuple(arguments)) for index, arguments in enumerate(further)]

    def dynamic_dims(self, variant: Variant) -> tuple[Any, ...] | None:
        """Per input, the dimensions meant to vary, as {dimension: name}; None when none are declared."""
        function = getattr(self.module, "dynamic_dims", None)
        return None if function is None or self._own_inputs(variant) else function()

    def check(self, variant: Variant) -> None:
        """Make the inputs of a fixed case's variant, and hold the dimensions said to vary against them; raises
        BrokenCase, or what the file's own functions raise."""
        arguments = self.inputs(variant, Workload())
        list(self.more_inputs(variant, Workload()))
        declared = self.dynamic_dims(variant)
        if declared is None:
            return
        where = f"{self.case.path}: dynamic_dims()"
        if not isinstance(declared, (tuple, list, dict)):
            raise BrokenCase(f"{where} must return a tuple, not {type(declared).__name__}")
        if len(declared) != len(arguments):
            raise BrokenCase(f"{where} speaks of {len(declared)} inputs, there are {len(arguments)}")
        per_input = declared.values() if isinstance(declared, dict) else declared
        for number, (argument, dimensions) in enumerate(zip(arguments, per_input, strict=True)):
            shape = getattr(argument, "shape", None)
            named = dimensions if isinstance(dimensions, dict) else range(len(dimensions or ()))
            if shape is not None and (wrong := [at for at in named if at not in range(len(shape))]):
                raise BrokenCase(f"{where} names dimension {wrong[0]} of input {number}, which has {len(shape)}")

    def expected(self, variant: Variant, what: Literal["", "_SHAPES", "_DTYPES"] = "") -> Any:
        """The outputs (shapes, dtypes) that the file states for the variant's inputs, or None."""
        return getattr(self.module, f"EXPECTED{what}", {}).get(variant.class_name)

    def optional(self, name: str) -> Callable[..., Any] | None:
        """A function that a sized case may define: `faults`, `statistics`, `floor_bytes`."""
        function = getattr(self.module, name, None)
        return function if callable(function) else None

    def _own_inputs(self, variant: Variant) -> Callable[[], Any] | None:
        snake = snake_case(variant.class_name)
        for stem in (variant.class_name.lower(), snake, snake.removesuffix("s")):
            function = getattr(self.module, f"{stem}_inputs", None)
            if callable(function) and stem not in ("example", "more"):
                return function  # type: ignore[no-any-return]
        return None

    def _with_noise(
        self, variant: Variant, workload: Workload, arguments: tuple[Any, ...], seed: int
    ) -> tuple[Any, ...]:
        if workload.noise != "input":
            return arguments
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module: Any = self.build(variant, workload)
            return (*arguments, module.noise(*arguments))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _header(path: Path) -> dict[str, Any] | None:
    """The literal `CASE` of a file, without running the file."""
    for statement in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "CASE" for target in statement.targets
        ):
            header: dict[str, Any] = ast.literal_eval(statement.value)
            return header
    return None


def _describe(path: Path, header: dict[str, Any], class_names: list[str]) -> Case:
    declared = header.get("variants")
    if declared:
        variants = [msgspec.convert({"name": name, **about}, Variant) for name, about in declared.items()]
    else:
        kinds: dict[str, Kind] = {"Dynamic": "variable", "Static": "static"}
        variants = [
            Variant(
                name=name,
                class_name=name,
                kind=kinds.get(name, "unknown"),
                rewrites="Dynamic" if name == "Static" and "Dynamic" in class_names else None,
            )
            for name in class_names
        ]
    try:
        sizes = msgspec.convert(header["sizes"], Sizes) if "sizes" in header else None
    except msgspec.ValidationError as error:
        raise BrokenCase(f"{path} has a CASE whose sizes are wrong: {error}") from error
    return Case(
        name=path.stem,
        path=str(path),
        title=str(header.get("title", path.stem)),
        source=str(header.get("source", "")),
        variants=tuple(variants),
        sizes=sizes,
    )


def _module_classes(module: types.ModuleType) -> Iterator[type[nn.Module]]:
    """The classes of this file that can be called: a helper base without a forward is no variant."""
    from torch import nn

    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, nn.Module)
            and value.__module__ == module.__name__
            and any("forward" in vars(base) for base in value.__mro__ if base is not nn.Module)
        ):
            yield value


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0]
