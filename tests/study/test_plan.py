"""The plan: what a study tries when it is told nothing, and what it is told when that does not exist."""

from __future__ import annotations

import pytest

from models.case import Case, Sizes, Variant, Workload
from runners.backends import BACKENDS
from runners.study import plan as plans
from runners.study.plan import BadRequest, Wanted

VARIANTS = (
    Variant(name="nonzero", class_name="Nonzero", kind="variable"),
    Variant(name="topk", class_name="TopK", kind="static", rewrites="nonzero"),
)
SAMPLER = Case(name="sampler", path="sampler.py", title="", source="", variants=VARIANTS, sizes=Sizes(draws=True))
FIXED = Case(name="fixed", path="fixed.py", title="", source="", variants=VARIANTS)


def shapes(case: Case, **wanted: object) -> list[tuple[int | None, int | None, str | None]]:
    return [(w.n, w.batch, w.noise) for w in plans.workloads(case, Wanted(**wanted))]  # type: ignore[arg-type]


def test_the_quick_profile() -> None:
    assert shapes(SAMPLER) == [
        (1_000, None, "inside"),
        (10_000, None, "inside"),
        (100_000, None, "inside"),
        (1_000, None, "input"),
        (1_000, 32, "inside"),
    ]


def test_the_full_profile_goes_to_ten_million_and_batches_to_a_hundred_thousand() -> None:
    sizes = shapes(SAMPLER, profile="full")
    assert (10_000_000, None, "inside") in sizes
    assert (100_000, 32, "inside") in sizes
    assert (1_000_000, 32, "inside") not in sizes


def test_what_is_asked_is_all_that_is_tried() -> None:
    assert shapes(SAMPLER, n=(10, 20), batches=(2,), noise=("input",)) == [(10, 2, "input"), (20, 2, "input")]


def test_a_sample_is_a_tenth_of_the_items() -> None:
    (workload,) = plans.workloads(SAMPLER, Wanted(n=(1_000,), batches=(None,), noise=("inside",)))
    assert (workload.n, workload.k, workload.dim, workload.label_dtype) == (1_000, 100, 16, "int64")


def test_a_fixed_case_has_one_workload_of_nothing() -> None:
    assert plans.workloads(FIXED, Wanted(n=(5,))) == [Workload()]


def test_eager_is_always_there() -> None:
    (round_,) = plans.plan([FIXED], Wanted(backends=("compile",), variants=("topk",)))
    assert round_.backends == ("eager", "compile")
    assert (round_.variant.name, round_.denominator and round_.denominator.name) == ("topk", "nonzero")


def test_the_gpu_profile_tries_what_can_use_a_gpu_and_what_is_asked_by_name() -> None:
    backends = plans.select_backends(None, "gpu")
    assert {"eager", "compile", "export", "onnxruntime_cuda", "tensorrt", "torch_tensorrt"} <= set(backends)
    assert {BACKENDS[name].device for name in backends} == {"any", "cuda"}
    assert {BACKENDS[name].device for name in plans.select_backends(None, "full")} == {"any", "cuda", "cpu"}
    assert plans.select_backends(("openvino",), "gpu") == ("eager", "openvino")


def test_the_gpu_profile_begins_with_the_articles_sizes_and_ends_with_the_largest_and_with_noise_as_input() -> None:
    order = [
        (round_.workload.n, round_.workload.batch, round_.variant.name, round_.workload.noise)
        for round_ in plans.plan([SAMPLER], Wanted(profile="gpu"))
    ]
    assert order[:2] == [(10_000, None, "nonzero", "inside"), (10_000, None, "topk", "inside")]
    assert {entry[:2] for entry in order[:8]} == {(10_000, None), (1_000, 32), (1_000, None), (100_000, None)}
    assert order[-3:-2] == [(10_000_000, None, "topk", "inside")]
    assert {entry[3] for entry in order[-2:]} == {"input"}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(variants=("topp",)), "unknown variant 'topp'; valid here: nonzero, topk"),
        (Wanted(backends=("tensorflow",)), "unknown backend 'tensorflow'; valid: eager, compile, "),
    ],
)
def test_what_does_not_exist_is_told_with_what_does(wanted: Wanted, words: str) -> None:
    with pytest.raises(BadRequest) as told:
        plans.plan([FIXED], wanted)
    assert str(told.value).startswith(words)


def test_sizes_are_read_as_people_write_them() -> None:
    assert plans.parse_sizes("1000,10k, 1M,2_000") == (1_000, 10_000, 1_000_000, 2_000)
    assert plans.parse_batches("none,32") == (None, 32)
    assert plans.parse_noise("input,inside") == ("input", "inside")


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5k", "ten", "1000,", "1g"])
def test_no_size(text: str) -> None:
    with pytest.raises(BadRequest, match="is no size"):
        plans.parse_sizes(text)


def test_no_noise() -> None:
    with pytest.raises(BadRequest, match="valid: inside, input"):
        plans.parse_noise("outside")
