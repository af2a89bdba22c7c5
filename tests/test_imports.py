"""Importing our packages imports no compiler, and works where none is installed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMPILERS = (
    "torch", "onnx", "onnxscript", "onnxruntime", "tensorrt", "tensorrt_rtx", "torch_tensorrt", "openvino",
    "executorch", "iree", "tvm", "jax", "torchax",
)  # fmt: skip


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _is_case(path: Path) -> bool:
    """Files of computations: cases, and the modules that they are made of. They are written in torch."""
    return path.parent.name == "models" and any(
        isinstance(node, (ast.Import, ast.ImportFrom)) and "torch" in ast.unparse(node)
        for node in ast.parse(path.read_text()).body
    )


FILES = [path for package in ("models", "exporters", "runners") for path in sorted((ROOT / package).rglob("*.py"))]
HARNESS = [_module(path) for path in FILES if not _is_case(path) and path.name != "__main__.py"]
CASES = [_module(path) for path in FILES if _is_case(path)]

BLOCK = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError("No module named " + name + " (blocked)", name=name)
sys.meta_path.insert(0, Blocked())
for name in {modules!r}:
    importlib.import_module(name)
"""


def _import_blocked(modules: list[str], blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    code = BLOCK.format(blocked=blocked, modules=modules)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_module_of_the_harness_imports_with_no_compiler_installed() -> None:
    assert len(HARNESS) > 30
    result = _import_blocked(HARNESS, COMPILERS)
    assert result.returncode == 0, result.stderr


def test_cases_import_torch_and_no_other_compiler() -> None:
    assert "models.balanced_sampler" in CASES
    result = _import_blocked(CASES, COMPILERS[1:])
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", ["models", "exporters", "runners", "runners.all", "runners.study.study"])
def test_importing_a_package_loads_no_compiler(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({COMPILERS!r})))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
