"""What to change: never a marked variant, the variable form unless a rewrite is clearly better."""

from __future__ import annotations

import pytest

from runners.report.advice import Advice, advice, gain_of, recommended, tied
from runners.report.selection import selections
from runners.study.record import Cell, Reason, Record
from tests.report import plain, sample

FLAW = sample.cell("topk", "eager", verdict="wrong", stage="verify", reason=Reason(code="ORDER.biased", text="biased"))


def chosen(*cells: Cell) -> str | None:
    (section,) = selections([Record(environments=[sample.environment()], cells=list(cells))])
    return recommended(section, "compile")


def test_the_sample() -> None:
    (section,) = selections([sample.full()])
    rows: dict[str, Advice] = {row.backend: row for row in advice(section)}
    assert list(rows) == ["compile", "compile_fullgraph", "export", "onnxruntime_cpu", "tensorrt_rtx"]
    assert rows["export"].change == "use `topk_shuffled`"
    assert rows["export"].gain == "0.25× to 3.0×, faster at 1 of 4 workloads"
    assert plain(rows["tensorrt_rtx"].change) == "use `topk_shuffled`, but only to N = 10 000 (built, not run)"
    assert rows["tensorrt_rtx"].gain == "not run"
    assert rows["export"].pairs == ["*static rescues*"]
    assert [plain(line) for line in rows["tensorrt_rtx"].pairs] == [
        "*static rescues (static not run)* to N = 10 000", "*neither* from N = 100 000",
    ]  # fmt: skip


def test_rewrites_that_fare_alike_share_a_line() -> None:
    taken = [sample.cell(variant, "compile") for variant in ("topk", "other")]
    refused = [sample.cell(variant, "compile", verdict="rejected") for variant in ("nonzero", "topk_shuffled")]
    (section,) = selections([Record(environments=[sample.environment()], cells=[*taken, *refused])])
    (row,) = advice(section)
    assert row.pairs == ["`topk`, `other`: *static rescues*", "`topk_shuffled`: *neither*"]


def test_a_marked_variant_is_never_recommended() -> None:
    fast = sample.cell("topk", "compile", timing=sample.timing(0.1, 10.0))
    assert chosen(FLAW, fast) is None
    assert chosen(fast) == "topk"


def test_a_mark_holds_in_every_environment() -> None:
    elsewhere = sample.cell("topk", "compile", environment="other")
    records = [
        Record(environments=[sample.environment()], cells=[FLAW]),
        Record(environments=[sample.environment("other")], cells=[elsewhere]),
    ]
    here, other = selections(records)
    assert other.name("topk") == "`topk` †"
    assert here.marks == other.marks == {"topk"}
    assert recommended(other, "compile") is None


@pytest.mark.parametrize(("median", "variant"), [(0.9, "topk_shuffled"), (0.97, "nonzero"), (1.5, "nonzero")])
def test_a_rewrite_must_be_clearly_faster(median: float, variant: str) -> None:
    variable = sample.cell("nonzero", "compile", timing=sample.timing(1.0, 1.0))
    assert chosen(variable, sample.cell("topk_shuffled", "compile", timing=sample.timing(median))) == variant


def test_what_is_taken_at_more_workloads_wins_over_what_is_faster() -> None:
    variable = sample.cell("nonzero", "compile", timing=sample.timing(0.1))
    refused = sample.cell("nonzero", "compile", sample.WORKLOADS[1], verdict="rejected")
    static = [
        sample.cell("topk_shuffled", "compile", workload, timing=sample.timing(1.0))
        for workload in sample.WORKLOADS[:2]
    ]
    assert chosen(variable, refused, *static) == "topk_shuffled"


def test_without_times_whole_acceptance_wins_and_else_the_variable_form() -> None:
    partial = sample.cell("nonzero", "compile", verdict="partial")
    assert chosen(partial, sample.cell("topk_shuffled", "compile")) == "topk_shuffled"
    assert chosen(sample.cell("nonzero", "compile"), sample.cell("topk_shuffled", "compile")) == "nonzero"


def test_when_nothing_sound_is_taken_it_says_so() -> None:
    cells = [FLAW, sample.cell("topk", "compile"), sample.cell("nonzero", "compile", verdict="rejected")]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    (row,) = advice(section)
    assert row.variant is None
    assert row.change == "no sound variant that was tried is taken: run this part in eager"


def test_without_an_interval_there_is_no_winner() -> None:
    few = sample.cell("topk", "compile", timing=sample.timing(1.0, 3.0, ratio_low=None, ratio_high=None))
    clear = sample.cell("topk", "compile", timing=sample.timing(1.0, 3.0))
    assert (tied(few), gain_of(few)) == (True, 1.0)
    assert (tied(clear), gain_of(clear)) == (False, 3.0)
    assert (tied(sample.cell()), gain_of(sample.cell())) == (False, None)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.5, 0.25), "0.25× to 0.50×, nowhere faster"),
        ((1.01, 0.25), "0.25× to tie, nowhere faster"),
        ((1.01, 0.99), "tie"),
        ((1.01, 2.0), "tie to 2.0×, faster at 1 of 2 workloads"),
        ((3.0, 2.0), "2.0× to 3.0×"),
    ],
)
def test_the_gain_says_where_it_is_none(ratios: tuple[float, float], words: str) -> None:
    cells = [
        sample.cell("topk", "export", workload, timing=sample.timing(1.0, ratio))
        for workload, ratio in zip(sample.WORKLOADS[:2], ratios, strict=True)
    ]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    assert advice(section)[0].gain == words
