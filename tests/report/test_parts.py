"""The smaller parts: telling lines, refusals, facts, stages, forecast, pictures."""

from __future__ import annotations

import msgspec
import pytest

from runners.report import facts, times
from runners.report.charts import _ticks, styles
from runners.report.forecast import CARDS, Work, forecast, forecast_ms
from runners.report.pictures import series
from runners.report.refusals import refusals, telling_line
from runners.report.selection import Selection, selections
from runners.study.record import Cell, Environment, Reason, Record, StageOutcome
from tests.report import plain, sample


def section(*cells: Cell) -> Selection:
    (only,) = selections([Record(environments=[sample.environment()], cells=list(cells))])
    return only


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n  only this  \n", "only this"),
        ("Unsupported: Tensor.item\n  hint: none", "Unsupported: Tensor.item"),
        ("loading\nconverting\nValueError: no K\nmore", "ValueError: no K"),
        ('Traceback (most recent call last):\n  File "x.py", line 3, in f\n    g()\nKeyError: 7\n', "KeyError: 7"),
        ("4 graph breaks:\n4 × Dynamic shape operator\n  Hint", "4 graph breaks: 4 × Dynamic shape operator"),
        ("RuntimeError: Compilation failed: See diagnostics\nloc(1): error: stack", "loc(1): error: stack"),
        ("RuntimeError: Compilation failed: See diagnostics", "RuntimeError: Compilation failed: See diagnostics"),
        ("parsing model\n[E] ITopKLayer: K exceeds\n", "[E] ITopKLayer: K exceeds"),
        ("copy output 0\n\nalso GRAPH.breaks: 1 break\nNameError: x", "copy output 0"),
    ],
)
def test_telling_line(text: str, line: str) -> None:
    assert telling_line(text) == line


def test_refusals_that_differ_in_numbers_alone_are_one() -> None:
    cells = [
        sample.cell("nonzero", backend, workload, verdict="rejected", stage="capture", repro=f"repro/{backend}-{u}.py",
                    reason=Reason(code="DDS.guard", text=f"Error: Could not guard on Eq(u{u}, 1)"))
        for backend in ("export", "compile")
        for u, workload in enumerate(sample.WORKLOADS[:2])
    ]  # fmt: skip
    accepted = sample.cell("nonzero", "export", sample.WORKLOADS[2])
    (refusal,) = refusals(section(*cells, accepted), lambda cell: cell.repro)
    assert [place.backend for place in refusal.places] == ["compile", "export"]
    assert [plain(place.workloads) for place in refusal.places] == ["", "to N = 10 000"]
    assert refusal.places[0].repro == "repro/compile-0.py"
    assert refusal.line == "Error: Could not guard on Eq(u0, 1)"


def test_p_values_do_not_keep_refusals_apart() -> None:
    cells = [
        sample.cell("topk", workload=workload, verdict="wrong", reason=Reason(code="ORDER.biased", text=f"p = {p}"))
        for workload, p in zip(sample.WORKLOADS, ("0", "7e-65", "1e-12"), strict=False)
    ]
    assert len(refusals(section(*cells), lambda cell: cell.repro)) == 1


def test_facts_in_words() -> None:
    known = [
        {"graph_breaks": 2, "artifact_bytes": 1_048_576, "nodes": {"CPU": 3, "CUDA": 0}, "whole": True},
        {"graph_breaks": 5, "artifact_bytes": 1_048_576, "load_seconds": 0.5, "big": ["x" * 200], "deep": {"a": [1]}},
    ]
    assert [plain(words) for words in facts.fact_words(known)] == [
        "graph breaks 2 to 5", "artifact 1.00 MiB", "nodes CPU: 3, CUDA: 0", "whole yes",
    ]  # fmt: skip


def test_what_the_verification_noted_stands_among_the_facts() -> None:
    noted = {"inputs": ["the example", "seed 1"], "elements": 4000, "random_outputs": [0],
             "statistics": sample.STATISTICS}  # fmt: skip
    table = facts.fact_table(section(sample.cell(facts={"graph_nodes": 12, "verification": noted})))
    assert table is not None
    assert plain(table.rows[0][2]) == "graph nodes 12; verified inputs 2; verified elements 4 000"


def test_numbers_by_name_are_ranges_by_name() -> None:
    known = [{"nodes": {"CPU": 3, "CUDA": 1}}, {"nodes": {"CPU": 7}}, {"nodes": {"CPU": 4}}, {"nodes": {"CPU": 5}}]
    assert [plain(words) for words in facts.fact_words(known)] == ["nodes CPU: 3 to 7, CUDA: 1"]


def test_host_waits_show_forecast_beside_count() -> None:
    waits = [{"operator": "aten.nonzero", "where": "a.py:3"}, {"operator": "aten.item", "where": "a.py:4"}]
    table = facts.host_waits(section(sample.cell(facts={"host_waits_forecast": waits, "host_waits_counted": 3})))
    assert table is not None
    assert table.rows == [["`eager`", "`nonzero`", "2", "3", "`aten.nonzero` `a.py:3`<br>`aten.item` `a.py:4`"]]


def statistics_rows(*noted: dict[str, object]) -> list[list[str]]:
    cells = [
        sample.cell(workload=workload, facts={"verification": {"statistics": statistics}})
        for workload, statistics in zip(sample.WORKLOADS, noted, strict=False)
    ]
    found = facts.statistics(section(*cells))
    assert found is not None
    assert "once in 1 000 000;" in plain(found.words)
    return [[plain(entry) for entry in row] for row in found.table.rows]


def test_statistics_show_the_smallest_p_and_the_weakest_test() -> None:
    assert statistics_rows(sample.STATISTICS) == [
        ["`nonzero`", "`eager`", "3", "94 to 1 128", "0.07 (order of the classes, 50 % positives)", "10 %"]
    ]


def test_statistics_say_what_they_could_not_have_seen() -> None:
    weak = {
        "false_alarm": 1e-6,
        "50 % positives": {
            "draws": 12,
            "order of the items": {"p": 7.1e-65, "sees_bias_of": 0.6, "note": "could not have seen a bias of 20 %"},
        },
        "90 % positives": {"draws": 3, "note": "too few draws for any test: could not have seen a bias of 20 %"},
    }
    (row,) = statistics_rows(sample.STATISTICS, weak)
    assert row[2:] == [
        "4", "3 to 1 128", "**7.1e-65** (order of the items, 50 % positives)",
        "60 %: 1 of 4 could not have seen 20 %; 1 of 4 samples too small for a test",
    ]  # fmt: skip
    nothing = {"false_alarm": 1e-6, "50 % positives": {"draws": 3, "note": "too few"}, "90 % positives": {}}
    (row,) = statistics_rows(nothing)
    assert row[2:] == ["0", "3", "", "no test: could not have seen 20 %"]


def test_statistics_come_variant_by_variant_eager_first() -> None:
    found = facts.statistics(selections([sample.full()])[0])
    assert found is not None
    pairs = [tuple(row[:2]) for row in found.table.rows]
    assert pairs[:2] == [("`topk` †", "`compile`"), ("`topk` †", "`compile_fullgraph`")]
    assert pairs[4:6] == [("`topk_shuffled`", "`eager`"), ("`topk_shuffled`", "`compile`")]


def test_stage_seconds_are_ranges_and_leave_empty_columns_out() -> None:
    cells = [
        sample.cell(workload=workload, stages={"capture": StageOutcome("ok", seconds), "run": StageOutcome("ok", 9)},
                    facts={"first_call_seconds": 0.25}, timing=sample.timing(2.0))
        for workload, seconds in zip(sample.WORKLOADS, (0.5, 1.5), strict=False)
    ]  # fmt: skip
    table = times.stage_seconds(section(*cells))
    assert table is not None
    assert table.columns == ["backend", "variant", "capture", "first call", "steady call"]
    assert [plain(entry) for entry in table.rows[0][2:]] == ["500 ms to 1.50 s", "250 ms", "2.00 ms"]


def test_a_clocks_extras_become_columns_only_where_present() -> None:
    more = {"rounds": 7, "calls_per_block": 3, "device_ms": 0.5, "cold_ms": 0.75, "throttled": [1, 4], "odd": [1],
            "unstable": False, "other_processes": 0, "waits": True, "waiting_share": 0.25, "unseen_by_events": False,
            "lost_share": 0.0}  # fmt: skip
    (detail,) = times.details(section(sample.cell(timing=sample.timing(1.0, 1.0, more=more))))
    assert detail.table.columns[5:] == ["device", "cold", "rounds × calls", "remarks"]
    entries = [plain(entry) for entry in detail.table.rows[0][5:]]
    assert entries == ["500 µs", "750 µs", "7 × 3", "waits (25 %), 2 throttled"]


def test_different_methods_are_lettered() -> None:
    cells = [
        sample.cell("nonzero", backend, timing=sample.timing(1.0, method=f"clock {backend}; 3 calls a block"))
        for backend in ("eager", "compile")
    ]
    (detail,) = times.details(section(*cells))
    assert detail.methods == ["clock eager; calls a block as listed", "clock compile; calls a block as listed"]
    assert [row[-1] for row in detail.table.rows] == ["a", "b"]


def test_forecast_is_bytes_launches_and_waits() -> None:
    # 4.8 GB at 4800 GB/s is 1 ms; 100 launches of 2.7 µs and 10 waits of 6.95 µs are 0.3395 ms
    h200 = next(card for card in CARDS if card.name == "H200")
    assert forecast_ms(h200, Work(100, 10, 4.8e9)) == pytest.approx(1.3395)


def forecast_rows(*records: Record) -> list[list[str]]:
    made = forecast(selections(list(records)))
    return [[plain(entry) for entry in row] for _, table in made.tables for row in table.rows] if made else []


EAGERS = {"kernel_launches": 100, "floor_bytes": 4.8e9, "host_waits_forecast": [{}] * 10}
CARD = sample.environment("h200-box", device="NVIDIA H200")


def test_forecast_stands_beside_the_measurement_with_its_error() -> None:
    here = Record(environments=[sample.environment()], cells=[sample.cell(facts=EAGERS)])
    there = Record(environments=[CARD], cells=[sample.cell(environment="h200-box", timing=sample.timing(2.0))])
    (row,) = forecast_rows(here, there)
    assert row == [
        "`nonzero`", "N = 1 000", "`eager`", "100 launches, 10 waits, 4.47 GiB",
        "5.90 ms", "8.34 ms", "2.69 ms", "1.77 ms", "1.34 ms<br>measured 2.00 ms (`eager`, h200-box): −33 %",
    ]  # fmt: skip
    assert not forecast_rows(there)


def test_forecast_of_compiled_forms_counts_their_own_kernels_and_eagers_waits() -> None:
    compiled = {"kernels": 10, "floor_bytes": 4.8e9}
    rows = forecast_rows(
        Record(
            environments=[sample.environment()],
            cells=[
                sample.cell(facts=EAGERS),
                sample.cell(backend="compile", facts=compiled),
                sample.cell(backend="compile_fullgraph", facts=compiled),
                sample.cell(backend="compile_dynamic", facts=compiled, verdict="partial"),  # eager ran between graphs
                sample.cell(backend="export", facts={"floor_bytes": 4.8e9}),
                sample.cell("topk", "compile", facts=compiled),  # its eager form's waits are unknown
            ],
        )
    )
    assert [row[2:4] for row in rows] == [
        ["`eager`", "100 launches, 10 waits, 4.47 GiB"],
        ["`compile`, `compile_fullgraph`", "10 launches, 10 waits, 4.47 GiB"],
    ]


def test_forecast_prefers_the_graph_of_a_card_and_says_for_what_it_was_compiled() -> None:
    def record(about: Environment, kernels: int) -> Record:
        facts = {"kernels": kernels, "floor_bytes": 1e6}
        cells = [sample.cell(facts=EAGERS), sample.cell(backend="compile", facts=facts)]
        return Record(
            environments=[about], cells=[msgspec.structs.replace(cell, environment=about.id) for cell in cells]
        )

    cpu, card = record(sample.environment(), 10), record(CARD, 7)
    assert forecast_rows(cpu, card)[1][3].startswith("7 launches")
    words = [made.words for made in (forecast(selections([one])) for one in (cpu, card)) if made]
    assert ["for the CPU, which it fuses otherwise than for CUDA" in one for one in words] == [True, False]
    assert "for NVIDIA H200." in words[1]


def test_pictures_keep_batches_apart_and_leave_noise_as_input_to_the_tables() -> None:
    (about,) = selections([sample.full()])
    lines = series(about)
    assert [plain(held) for held in lines] == ["unbatched", "batch 32"]
    assert [[workload.n for workload in line] for line in lines.values()] == [[1_000, 10_000, 100_000], [1_000]]


def test_a_panel_names_the_measured_sizes_that_have_room() -> None:
    sizes = (1_000, 1_100, 10_000, 90_000, 100_000)
    workloads = [msgspec.structs.replace(sample.WORKLOADS[0], n=n) for n in sizes]
    assert _ticks(workloads) == [1_000, 10_000, 90_000]
    assert _ticks(workloads[:2]) == [1_000, 1_100]


def test_variable_and_static_forms_look_different() -> None:
    (about,) = selections([sample.full()])
    looks = styles(about)
    assert {name: look.dashes for name, look in looks.items()} == {"nonzero": "--", "topk": "-", "topk_shuffled": "-"}
    assert looks["topk"].name == "topk †"
    assert len({look.colour for look in looks.values()}) == 3


def test_a_backend_that_runs_on_the_cpu_alone_is_labelled_on_a_card_only() -> None:
    here = sample.cell("topk", "onnxruntime_cpu")
    card = sample.environment(device="NVIDIA H200")
    (there,) = selections([Record(environments=[card], cells=[here, sample.cell("topk", "compile")])])
    assert there.on_cpu == {"onnxruntime_cpu"}
    assert there.backend_name("onnxruntime_cpu") == "`onnxruntime_cpu` (CPU)"
    assert there.backend_name("compile") == "`compile`"
    assert section(here).backend_name("onnxruntime_cpu") == "`onnxruntime_cpu`"
