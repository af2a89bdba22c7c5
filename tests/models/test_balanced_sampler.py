"""The balanced sampler: its contract in eager, and the statistics of its draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from models import balanced_sampler, draw_statistics
from models.balanced_sampler import Nonzero, TopK, TopKShuffled, faults, inputs, statistics
from models.case import Workload
from models.draw_statistics import ASKED_BIAS, FALSE_ALARM, NOMINAL, Layout, mean_test, sampling_faults

VARIANTS = [Nonzero, TopK, TopKShuffled]


def sized(n: int = 200, batch: int | None = None, **about: Any) -> Workload:
    return Workload(
        **{
            "n": n,
            "k": n // 10,
            "batch": batch,
            "dim": 5,
            "dtype": "float32",
            "label_dtype": "int64",
            "positives": 0.5,
            "noise": "inside",
            "seed": 0,
            **about,
        }
    )


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(2)


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_keeps_the_contract_of_one_call(variant: Any, batch: int | None) -> None:
    workload = sized(batch=batch)
    for arguments in (inputs(workload, 0), *(given for _, given in balanced_sampler.more_inputs(workload))):
        assert faults(arguments, variant(workload.k)(*arguments), workload) == []


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("label_dtype", ["int32", "uint8", "bool"])
def test_other_dtypes(dtype: str, label_dtype: str) -> None:
    workload = sized(dtype=dtype, label_dtype=label_dtype)
    arguments = inputs(workload, 0)
    for variant in VARIANTS:
        assert faults(arguments, variant(workload.k)(*arguments), workload) == []


def swapped(rows: torch.Tensor, labels: torch.Tensor) -> Any:
    return rows, labels.flip(0)


def twice(rows: torch.Tensor, labels: torch.Tensor) -> Any:
    at = int((labels == labels[0]).nonzero()[1])
    rows = rows.clone()
    rows[at] = rows[0]
    return rows, labels


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows, labels: (rows[:-1], labels), "SHAPE.mismatch"),
        (lambda rows, labels: (rows.double(), labels), "DTYPE.mismatch"),
        (lambda rows, labels: (rows, labels.int()), "DTYPE.mismatch"),
        (lambda rows, labels: (rows + 1e-3, labels), "VALUE.not_in_input"),
        (lambda rows, labels: (rows * torch.nan, labels), "VALUE.not_in_input"),
        (swapped, "VALUE.label"),
        (twice, "RNG.repeats"),
    ],
)
def test_breaches_of_the_contract(change: Callable[..., Any], code: str) -> None:
    workload = sized()
    arguments = inputs(workload, 0)
    outputs = change(*Nonzero(workload.k)(*arguments))
    assert code in [fault.code for fault in faults(arguments, outputs, workload)]


def test_items_of_neither_class_and_unmet_quotas() -> None:
    workload = sized()
    features, labels = inputs(workload, 0)
    labels[:50] = 2
    first = features[:20], labels[:20]
    assert "VALUE.ineligible" in [fault.code for fault in faults((features, labels), first, workload)]
    ones = (labels == 1).nonzero().flatten()[:20]
    unmet = faults((features, labels), (features[ones], labels[ones]), workload)
    assert [fault.code for fault in unmet] == ["VALUE.quota"]


@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize(("variant", "code"), [(Nonzero, None), (TopK, "ORDER.biased"), (TopKShuffled, None)])
def test_the_statistics_of_eager(variant: Any, code: str | None, batch: int | None) -> None:
    workload = sized(1000, batch)
    found, facts = statistics(variant(workload.k), None, workload, "cpu", 0.1)
    assert {fault.code for fault in found} == ({code} if code else set())
    assert all("90 % positives" in fault.text for fault in found)
    assert facts["false_alarm"] == FALSE_ALARM
    assert "inclusion of positives" in facts["50 % positives"]
    assert facts["50 % positives"]["draws"] >= 12


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_held_against_itself_raises_no_alarm(variant: Any) -> None:
    workload = sized(1000)
    assert statistics(variant(workload.k), variant(workload.k), workload, "cpu", 0.05)[0] == []


def test_a_backend_that_is_not_as_its_eager_is_noticed() -> None:
    workload = sized(1000)
    found, _ = statistics(TopKShuffled(workload.k), TopK(workload.k), workload, "cpu", 0.05)
    assert {fault.code for fault in found} == {"ORDER.biased"}


def uniform_draws(layout: Layout, draws: int, seed: int, weights: Any = None) -> Any:
    generator = numpy.random.default_rng(seed)
    found = []
    for _ in range(draws):
        parts = []
        for which in (0, 1):
            members = layout.members(which)
            chance = None if weights is None else weights[members] / weights[members].sum()
            parts.append(generator.choice(members, layout.quota(which), replace=False, p=chance))
        found.append(generator.permutation(numpy.concatenate(parts)))
    return numpy.array(found)


LAYOUT = Layout(numpy.arange(400) % 2, 40, 20)


def test_p_values_of_uniform_draws_are_no_smaller_than_they_should_be() -> None:
    smallest = 1.0
    for seed in range(40):
        found, facts = sampling_faults(uniform_draws(LAYOUT, 60, seed), LAYOUT)
        assert found == []
        smallest = min(smallest, *(fact["p"] for fact in facts.values() if isinstance(fact, dict)))
    assert 1e-5 < smallest < 0.1


def test_the_power_that_is_stated_is_there() -> None:
    weights = numpy.where(numpy.arange(400) < 200, 1.0 + ASKED_BIAS, 1.0 - ASKED_BIAS)
    _, facts = sampling_faults(uniform_draws(LAYOUT, 400, 0), LAYOUT)
    assert facts["inclusion of positives"]["sees_bias_of"] < ASKED_BIAS
    found, _ = sampling_faults(uniform_draws(LAYOUT, 400, 0, weights), LAYOUT)
    assert {fault.code for fault in found} >= {"INCLUSION.biased"}


def test_a_test_that_could_not_see_20_percent_says_so() -> None:
    _, facts = sampling_faults(uniform_draws(LAYOUT, 25, 0), LAYOUT)
    notes = [fact.get("note", "") for fact in facts.values() if isinstance(fact, dict)]
    assert notes
    assert all("could not have seen a bias of 20 %" in note for note in notes)
    _, facts = sampling_faults(uniform_draws(LAYOUT, 3, 0), LAYOUT)
    assert "could not have seen" in facts["note"]


def test_items_that_come_in_neighbours_are_noticed() -> None:
    layout = Layout(numpy.ones(200, dtype=numpy.int64), 40, 40)
    generator = numpy.random.default_rng(0)
    pairs = [generator.choice(100, 20, replace=False) for _ in range(200)]
    draws = numpy.array([generator.permutation(numpy.concatenate([2 * pair, 2 * pair + 1])) for pair in pairs])
    found, _ = sampling_faults(draws, layout)
    assert {fault.code for fault in found} == {"INCLUSION.biased"}


def test_draws_that_depend_on_one_another() -> None:
    draws = uniform_draws(LAYOUT, 40, 0)
    alike = numpy.repeat(draws[:1], 40, 0)
    assert [fault.code for fault in sampling_faults(alike, LAYOUT)[0]] == ["RNG.frozen"]
    shuffled = numpy.random.default_rng(0).permuted(alike, axis=1)
    assert [fault.code for fault in sampling_faults(shuffled, LAYOUT)[0]] == ["RNG.frozen"]
    rows = numpy.repeat(draws[:20], 2, 0)
    batched = Layout(LAYOUT.classes, 40, 20, batch=2)
    assert [fault.code for fault in sampling_faults(rows, batched)[0]] == ["RNG.repeats"]


def test_a_class_that_is_drawn_whole_is_no_bias() -> None:
    layout = Layout((numpy.arange(100) < 10).astype(numpy.int64), 20, 10)
    assert sampling_faults(uniform_draws(layout, 100, 0), layout)[0] == []


def test_the_test_of_means_is_exact_for_normal_counts() -> None:
    generator = numpy.random.default_rng(1)
    expected = numpy.full(4, 1000.0)
    below = sum(mean_test(generator.normal(1000, 30, (40, 4)), expected, expected * 0.01).p < 0.05 for _ in range(400))
    assert 5 < below < 40
    assert mean_test(generator.normal(1100, 30, (40, 4)), expected, expected * 0.01).p < NOMINAL
    assert draw_statistics.NOMINAL < FALSE_ALARM


def test_further_inputs_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = balanced_sampler._features
    monkeypatch.setattr(balanced_sampler, "_features", lambda *about: (made.append(1), original(*about))[1])
    further = balanced_sampler.more_inputs(sized())
    next(iter(further))
    assert len(made) == 1
