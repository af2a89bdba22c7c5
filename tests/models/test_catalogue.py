"""What every case of the catalogue must satisfy; a case is a file, so this is what adding one is held to."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models.case import CATALOGUE, CaseModule, Workload, catalogue, load
from runners.study.reasons import CODES

CASES = {case.name: case for case in catalogue()}
VARIANTS = [(name, variant.name) for name, case in CASES.items() for variant in case.variants]


@pytest.fixture(scope="module", params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> CaseModule:
    return load(CASES[request.param].path)


def small(case: CaseModule, k: int = 8) -> Workload:
    """The case's own workload at a small N: K as given where there is a K, 8 K items where there is none."""
    sizes = case.case.sizes
    assert sizes is not None
    return sizes.workload(k * (sizes.items_per_sample or 8), sizes.batches[0], "inside")


def test_the_catalogue_is_what_the_project_promises() -> None:
    assert set(CASES) >= {
        "balanced_sampler",
        "masked_mean",
        "cross_entropy_ignore",
        "nms",
        "unique_count",
        "repeat_by_counts",
        "expert_dispatch",
        "ragged_pad",
        "score_threshold",
    }


def test_a_file_with_variants_is_a_case() -> None:
    """What defines a forward is a case, or a part that a case imports."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in CATALOGUE.glob("*.py")}
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    imported = {node.module for _, node in nodes if isinstance(node, ast.ImportFrom)}
    for name, node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            assert name in CASES or f"models.{name}" in imported, name


def test_name_title_and_source(case: CaseModule) -> None:
    assert case.case.name == Path(case.case.path).stem
    assert case.case.title != case.case.name
    assert case.case.source
    assert case.module.__doc__ is not None
    assert "Contract, for every variant:" in case.module.__doc__


def test_variants(case: CaseModule) -> None:
    """Every declared class exists once, every static variant rewrites a variable one, and both kinds are there."""
    variants = case.case.variants
    variable = {variant.name for variant in variants if variant.kind == "variable"}
    assert variable
    assert {variant.kind for variant in variants} == {"variable", "static"}
    assert len({variant.class_name for variant in variants}) == len(variants)
    for variant in variants:
        cls = getattr(case.module, variant.class_name)
        assert issubclass(cls, torch.nn.Module)
        assert cls.__doc__, f"{variant.class_name} does not say what it is"
        assert (variant.rewrites in variable) if variant.kind == "static" else variant.rewrites is None


def test_header_is_known_without_importing(case: CaseModule) -> None:
    assert CASES[case.case.name] == case.case


@pytest.mark.parametrize("name", sorted(CASES))
def test_importing_a_case_imports_torch_and_numpy_only(name: str) -> None:
    """Beyond torch, NumPy, the standard library and what `models.case` itself needs, nothing but its own package."""
    tree = ast.parse(Path(CASES[name].path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for imported in names:
            package = imported.split(".")[0]
            assert package in {"torch", "numpy", "msgspec", "models"} or package in sys.stdlib_module_names, imported


def test_importing_cases_imports_no_compiler() -> None:
    """The plan knows the catalogue without torch; with every case imported no compiler is there, and nothing of
    what stands to the right of `models`."""
    script = """
import sys
from models.case import catalogue, load
cases = catalogue()
assert "torch" not in sys.modules
for case in cases:
    load(case.path)
print(sorted({name.split(".")[0] for name in sys.modules}))
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=CATALOGUE.parent, capture_output=True, text=True, check=True
    )
    imported = set(ast.literal_eval(answer.stdout))
    assert "torch" in imported
    assert not imported & {
        "exporters",
        "runners",
        "onnx",
        "onnxscript",
        "onnxruntime",
        "openvino",
        "executorch",
        "iree",
        "tvm",
        "jax",
        "torchax",
        "tensorrt",
        "tensorrt_rtx",
    }


def test_floor_is_positive_and_grows(case: CaseModule) -> None:
    floor = case.optional("floor_bytes")
    assert floor is not None
    few, many = floor(small(case)), floor(small(case, 512))
    assert isinstance(few, int)
    assert 0 < few < many


@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize(("name", "variant_name"), VARIANTS)
def test_eager_keeps_the_contract(name: str, variant_name: str, k: int) -> None:
    """No faults on seeds 0 to 2 and on every further input, and no input is changed."""
    case = load(CASES[name].path)
    variant = case.case.variant(variant_name)
    faults = case.optional("faults")
    assert faults is not None
    workload = small(case, k)
    module = case.build(variant, workload)
    calls = [(f"seed {seed}", case.inputs(variant, workload, seed)) for seed in range(3)]
    calls += [(further.name, further.arguments) for further in case.more_inputs(variant, workload)]
    assert len(calls) > 3
    with torch.inference_mode():
        for what, arguments in calls:
            before = [argument.clone() for argument in arguments]
            found = faults(arguments, module(*arguments), workload)
            assert not found, f"{variant_name} on {what}: {found}"
            for given, kept in zip(arguments, before, strict=True):
                assert torch.equal(given.nan_to_num(), kept.nan_to_num()), f"{variant_name} changes its input"


def test_further_inputs_with_features_are_made_one_at_a_time(case: CaseModule) -> None:
    """At N = 10 M a dozen of them would not fit into memory together."""
    workload = small(case)
    if workload.dim is not None:
        assert inspect.isgenerator(case.module.more_inputs(workload))


@pytest.mark.parametrize(("name", "variant_name"), VARIANTS)
def test_faults_see_a_spoilt_answer(name: str, variant_name: str) -> None:
    """Each output in turn is shifted, cut and given another dtype; each must be found, under a known code."""
    case = load(CASES[name].path)
    variant = case.case.variant(variant_name)
    faults = case.optional("faults")
    assert faults is not None
    workload = small(case)
    arguments = case.inputs(variant, workload, 0)
    answer = case.build(variant, workload)(*arguments)
    outputs = (answer,) if isinstance(answer, torch.Tensor) else tuple(answer)
    for place, output in enumerate(outputs):
        spoilt = {
            "values": ~output if output.dtype == torch.bool else output + 1,
            "dtype": output.to(torch.float64 if output.dtype != torch.float64 else torch.float32),
        }
        if output.dim():
            spoilt["shape"] = output[1:]
        for what, changed in spoilt.items():
            found = faults(arguments, (*outputs[:place], changed, *outputs[place + 1 :]), workload)
            assert found, f"the {what} of output {place}"
            assert {fault.code for fault in found} <= set(CODES)


def test_inputs_are_reproducible_and_vary(case: CaseModule) -> None:
    workload = small(case)
    for seed in range(3):
        once, again = case.module.inputs(workload, seed), case.module.inputs(workload, seed)
        assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    first, second = case.module.inputs(workload, 0), case.module.inputs(workload, 1)
    assert not all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert [a.shape for a in first] == [b.shape for b in second]
    assert [a.dtype for a in first] == [b.dtype for b in second]
