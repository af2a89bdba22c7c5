"""From which size on: crossings worked out by hand."""

from __future__ import annotations

import pytest

from runners.report.breakeven import break_evens, crossing, never_ahead
from runners.report.selection import selections
from runners.study.record import Record
from tests.report import plain, sample


@pytest.mark.parametrize(
    ("points", "size"),
    [
        ([], None),
        ([(100, 0.5)], None),
        ([(100, 1.0)], 100),
        ([(100, 0.5), (10_000, 0.9)], None),
        ([(100, 1.5), (10_000, 2.0)], 100),
        # halfway on log-log axes between 0.5 at 100 and 2 at 10 000
        ([(100, 0.5), (10_000, 2.0)], 1_000),
        # a win at the small end that is lost again does not count
        ([(10, 3.0), (100, 0.5), (10_000, 2.0)], 1_000),
        # 0.25 to 2: two thirds of the way from 1 000 to 1 000 000
        ([(1_000, 0.25), (1_000_000, 2.0)], 100_000),
        # a win that is lost at the largest size is no break-even
        ([(100, 2.0), (10_000, 0.9)], None),
    ],
)
def test_crossing(points: list[tuple[float, float]], size: float | None) -> None:
    assert crossing(points) == (None if size is None else pytest.approx(size))


def test_a_backend_along_n_with_interval_and_against_its_own_variable_form() -> None:
    small, _, large = sample.WORKLOADS[:3]  # N = 1 000 and 100 000
    cells = [
        sample.cell("topk", "compile", small, timing=sample.timing(2.0, 0.5, ratio_low=0.1, ratio_high=1.0)),
        sample.cell("topk", "compile", large, timing=sample.timing(1.0, 2.0, ratio_low=0.9, ratio_high=4.0)),
        sample.cell("nonzero", "compile", small, timing=sample.timing(1.0, 1.0)),
        sample.cell("nonzero", "compile", large, timing=sample.timing(2.0, 1.0)),
    ]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    (entry,) = break_evens(section)
    assert (entry.backend, entry.variant, entry.axis) == ("compile", "topk", "N")
    assert plain(entry.words(entry.against_eager)) == "10 000"
    assert plain(entry.interval) == "all measured (from 1 000) to never"
    assert plain(entry.words(entry.against_itself)) == "10 000"


def test_along_the_batch_an_absent_batch_counts_as_one() -> None:
    single, batched = sample.WORKLOADS[0], sample.WORKLOADS[3]
    cells = [
        sample.cell("topk", "compile", single, timing=sample.timing(1.0, 0.25)),
        sample.cell("topk", "compile", batched, timing=sample.timing(1.0, 8.0)),
    ]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    (entry,) = break_evens(section)
    # 1/4 to 8 over 32: two fifths of the way, 32 ** 0.4 = 4
    assert entry.against_eager == pytest.approx(4)
    assert (entry.axis, plain(entry.held), entry.has_itself) == ("batch", "N = 1 000", False)


def test_one_size_is_no_line() -> None:
    cells = [sample.cell("topk", "compile", timing=sample.timing(1.0, 2.0))]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    assert break_evens(section) == []


def test_what_never_wins_is_one_line() -> None:
    cells = [
        sample.cell("topk", "export", workload, timing=sample.timing(1.0, 0.5))
        for workload in (*sample.WORKLOADS[:2], sample.WORKLOADS[3])
    ]
    (section,) = selections([Record(environments=[sample.environment()], cells=cells)])
    entries = break_evens(section)
    assert not any(entry.ahead for entry in entries)
    assert never_ahead(section, entries) == "`export`: `topk` along N and batch"
