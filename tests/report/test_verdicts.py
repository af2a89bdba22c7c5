"""Does my backend take it: summaries, pairs, rates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runners.report.selection import Selection, selections
from runners.report.verdicts import findings, matrix, pair_verdict, pair_word, rate
from runners.study.record import Cell, Record, Verdict
from tests.report import plain, sample


def section(cells: Sequence[Cell]) -> Selection:
    (only,) = selections([Record(environments=[sample.environment()], cells=list(cells))])
    return only


@pytest.mark.parametrize(
    ("variable", "static", "word"),
    [
        ("accepted", "accepted", "both accepted"),
        ("rejected", "accepted", "static rescues"),
        ("crashed", "accepted", "static rescues"),
        ("wrong", "accepted", "static rescues"),
        ("accepted", "rejected", "static breaks it"),
        ("accepted", "wrong", "static breaks it"),
        ("rejected", "timeout", "neither"),
        ("partial", "accepted", "both accepted (variable in part)"),
        ("rejected", "built", "static rescues (static not run)"),
        ("built", "built", "both accepted (not run)"),
        ("partial", "partial", "both accepted (variable in part, static in part)"),
        ("unavailable", "accepted", None),
        ("accepted", "unavailable", None),
    ],
)
def test_pair_words(variable: Verdict, static: Verdict, word: str | None) -> None:
    assert pair_word(sample.cell(verdict=variable), sample.cell("topk", verdict=static)) == word


def test_a_pair_verdict_says_where_it_turns() -> None:
    small, middle, large = sample.WORKLOADS[:3]
    variable = [sample.cell(workload=workload, verdict="rejected") for workload in (small, middle, large)]
    static = [
        sample.cell("topk", workload=small),
        sample.cell("topk", workload=middle),
        sample.cell("topk", workload=large, verdict="rejected"),
    ]
    phrases = [plain(phrase) for phrase in pair_verdict(variable, static)]
    assert phrases == ["*static rescues* to N = 10 000", "*neither* from N = 100 000"]


def test_a_pair_is_judged_only_where_both_were_tried() -> None:
    small, middle, _ = sample.WORKLOADS[:3]
    variable = [sample.cell(workload=small), sample.cell(workload=middle, verdict="unavailable")]
    static = [sample.cell("topk", workload=small), sample.cell("topk", workload=middle, verdict="rejected")]
    assert pair_verdict(variable, static) == ["*both accepted*"]


def test_findings_are_worst_first_and_say_where_they_turn() -> None:
    cells = section(sample.full().cells).of("topk", "tensorrt_rtx")
    assert [plain(str(found)) for found in findings(cells)] == [
        "❌ rejected from N = 100 000 `LIMIT.topk_k`",
        "🔧 built (not run) to N = 10 000",
    ]


def test_one_finding_when_all_workloads_agree() -> None:
    cells = section(sample.full().cells).of("nonzero", "export")
    assert [plain(str(found)) for found in findings(cells)] == ["❌ rejected `DDS.guard`"]


def test_unavailable_counts_only_when_nothing_was_tried() -> None:
    cells = [sample.cell(), sample.cell(workload=sample.WORKLOADS[1], verdict="unavailable")]
    assert [plain(str(found)) for found in findings(cells)] == ["✅ accepted"]
    assert [found.verdict for found in findings(cells[1:])] == ["unavailable"]


def test_rates_leave_the_unavailable_and_the_reference_out() -> None:
    about = section(sample.full().cells)
    nonzero, topk = rate(about, "nonzero"), rate(about, "topk")
    # five compilers were tried; two were unavailable at five workloads each
    assert (nonzero.taken, nonzero.accepted, nonzero.backends) == (1, 0, 5)
    assert (nonzero.counted, nonzero.unavailable) == (25, 10)
    assert nonzero.cells == {"partial": 5, "rejected": 20}
    # TensorRT refuses topk at one size, so it does not take it at every workload
    assert (topk.taken, topk.accepted, topk.backends) == (4, 4, 5)
    assert topk.cells == {"accepted": 20, "built": 4, "rejected": 1}


def test_the_matrix_has_a_row_for_every_backend_that_was_tried() -> None:
    about = section(sample.full().cells)
    rows = matrix(about)
    assert [backend for backend, _ in rows] == list(sample.AVAILABLE)
    name, entries = rows[0]
    assert name == "eager"
    assert [plain(str(found)) for entry in entries for found in entry] == [
        "✅ accepted", "❗ wrong `ORDER.biased`", "✅ accepted",
    ]  # fmt: skip
