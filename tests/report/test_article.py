"""The article's tables and claims, worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from runners.report.article import Points, article, batched_claim, compiled_claim, less, unbatched_claim
from runners.report.selection import Selection, selections
from runners.study.record import Cell, Reason, Record
from tests.report import plain, sample

SMALL, MIDDLE, _, BATCHED, _ = sample.WORKLOADS


def section(*cells: Cell, device: str = "NVIDIA H200") -> Selection:
    (only,) = selections([Record(environments=[sample.environment(device=device)], cells=list(cells))])
    return only


@pytest.mark.parametrize(
    ("points", "measured", "verdict"),
    [
        ([], "nothing", "not measured"),
        ([(100_000, 9.0)], "nothing", "not measured"),
        # 1 - 1/4 and 1 - 1/3.3125 = 1 - 0.302
        ([(1_000, 4.0), (10_000, 3.3125)], "75 % less at N = 1 000, 70 % less at N = 10 000", "holds"),
        ([(1_000, 4.0), (10_000, 2.0)], "75 % less at N = 1 000, 50 % less at N = 10 000", "holds in part"),
        ([(1_000, 0.5), (10_000, 1.0)], "100 % more at N = 1 000, tie at N = 10 000", "does not hold"),
    ],
)
def test_compiled_takes_less_time(points: Points, measured: str, verdict: str) -> None:
    claim = compiled_claim(points)
    assert plain(claim.claim) == "compiled takes 70 to 75 % less time at N 1 000 to 10 000"
    assert (plain(claim.measured), claim.verdict) == (measured, verdict)


@pytest.mark.parametrize(
    ("eager", "verdict"),
    [([(1_000, 2.0), (10_000, 52.0)], "holds"), ([(1_000, 1.5), (10_000, 3.0)], "holds in part"),
     ([(1_000, 1.0), (10_000, 0.5)], "does not hold")],
)  # fmt: skip
def test_static_is_faster_batched(eager: Points, verdict: str) -> None:
    assert batched_claim(eager, []).verdict == verdict


def test_batched_tells_both_forms_and_needs_eagers() -> None:
    claim = batched_claim([(1_000, 2.0), (10_000, 40.0)], [(1_000, 8.0)])
    assert claim.claim == "static is 2× to 52× faster batched at B = 32"
    assert plain(claim.measured) == "eager: 2.0× to 40× at N = 1 000 to 10 000; compiled: 8.0× at N = 1 000"
    assert batched_claim([], [(1_000, 8.0)]).verdict == "not measured"


@pytest.mark.parametrize(
    ("eager", "measured", "verdict"),
    [
        ([], "nothing", "not measured"),
        ([(1_000, 0.5)], "eager wins nowhere, measured at N = 1 000", "as far as measured: holds"),
        ([(1_000, 0.5), (10_000_000, 1.5)],
         "eager wins at N = 10 000 000, measured at N = 1 000, 10 000 000", "holds"),
        ([(1_000, 0.5), (10_000_000, 1.0)], "eager wins nowhere, measured at N = 1 000, 10 000 000", "does not hold"),
        ([(1_000, 1.2), (10_000, 0.8)], "eager wins at N = 1 000, measured at N = 1 000, 10 000", "does not hold"),
    ],
)  # fmt: skip
def test_static_wins_unbatched_only_near_ten_million(eager: Points, measured: str, verdict: str) -> None:
    claim = unbatched_claim(eager)
    assert (plain(claim.measured), claim.verdict) == (measured, verdict)


def test_a_speed_up_as_time_saved() -> None:
    assert [plain(less(gain)) for gain in (4.0, 0.5, 1.0)] == ["75 % less", "100 % more", "tie"]


def partition(backend: str, median_ms: float, ratio: float) -> Cell:
    changed = sample.cell("topk", backend, SMALL, timing=sample.timing(median_ms, ratio))
    return msgspec.structs.replace(changed, variant="partition")


def test_the_tables() -> None:
    lacking = Reason(code="MEMORY.device", text="out of memory")
    made = article(
        section(
            sample.cell(timing=sample.timing(0.8, 1.0)),
            sample.cell("topk", timing=sample.timing(1.6, 0.5)),
            sample.cell("topk", "compile", timing=sample.timing(0.2, 4.0)),
            partition("eager", 0.4, 2.0),
            partition("compile", 0.1, 8.0),
            partition("onnxruntime_cpu", 0.01, 80.0),  # not on the card
            sample.cell("nonzero", workload=BATCHED, timing=sample.timing(24.0, 1.0)),
            sample.cell("topk", workload=BATCHED, timing=sample.timing(2.0, 12.0)),
            sample.cell("topk", "compile", BATCHED, verdict="rejected", reason=lacking),
            sample.cell("topk", "compile", MIDDLE),  # not timed, so no row
        )
    )
    assert made is not None
    assert [heading for heading, _ in made.tables] == ["Unbatched", "Batch 32"]
    rows = [[plain(entry) for entry in row] for _, table in made.tables for row in table.rows]
    assert rows == [
        ["N = 1 000", "800 µs", "1.60 ms<br>**0.50×**", "200 µs<br>**4.0×**", "75 % less",
         "100 µs (`compile`)<br>**8.0×**"],
        ["N = 1 000", "24.0 ms", "2.00 ms<br>**12×**", "❌ rejected `MEMORY.device`", "", ""],
    ]  # fmt: skip
    assert [claim.verdict for claim in made.claims] == ["holds", "holds", "as far as measured: holds"]


def test_no_section_on_a_cpu_without_times_or_for_another_case() -> None:
    timed = sample.cell(timing=sample.timing(1.0, 1.0))
    assert article(section(timed)) is not None
    assert article(section(timed, device="cpu")) is None
    assert article(section(sample.cell())) is None
    assert article(section(msgspec.structs.replace(timed, case="nms"))) is None
