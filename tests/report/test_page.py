"""The page as a whole: it holds together whatever a compiler writes, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runners.report import write_report
from runners.report.selection import SameEnvironment
from runners.study.record import Reason, Record, write
from tests.report import plain, sample

NASTY = 'Error: a | b ``c``\n</details>\n| x | y |\n```\n<script>alert("1")</script> *bold* \x1b[31mred\x1b[0m'


def report(output: Path, *records: Record) -> str:
    page = write_report(list(records), output)
    assert page == output / "compat.md"
    return plain(page.read_text(encoding="utf-8"))


def without_code_blocks(page: str) -> str:
    return re.sub(r"^(`{3,})text\n.*?^\1$", "(code)", page, flags=re.DOTALL | re.MULTILINE)


def tables(page: str) -> list[list[str]]:
    """The tables of a page, as lists of lines, code blocks left out."""
    text = without_code_blocks(page)
    return [block.rstrip("\n").split("\n") for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)]


def assert_sound(page: str) -> None:
    assert "\n\n\n" not in without_code_blocks(page)
    for table in tables(page):
        assert {line.count("|") for line in table} == {table[0].count("|")}, "\n".join(table)
        assert re.fullmatch(r"\|( --- \|)+", table[1]), table[1]
    outside = without_code_blocks(page)
    assert outside.count("<details>") == outside.count("</details>")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("results")
    report(output, sample.full())
    return output


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return plain((written / "compat.md").read_text(encoding="utf-8"))


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.report.page.draw", lambda selection, output: [])


def test_the_four_answers_are_there(page: str) -> None:
    assert_sound(page)
    assert "6 backends tried (eager, the reference, among them), 2 unavailable" in page
    assert "| **`topk` †** | ❗ wrong `ORDER.biased` | ✅ accepted |" in page
    assert "❌ rejected from N = 100 000 `LIMIT.topk_k`<br>🔧 built (not run) to N = 10 000" in page
    gain = "0.25× to 3.0×, faster at 1 of 4 workloads"
    assert f"| `export` | *static rescues* | *static rescues* | use `topk_shuffled` | {gain} |" in page
    assert "| `nonzero` | 1 of 5 | 0 of 5 | 25 | 5 partial, 20 rejected | 10 |" in page


def test_times_stand_with_interval_floor_and_method(page: str) -> None:
    # N = 10 000: 1 ms / 0.35, interval of 3 %, floor 0.1 ms
    assert "| `eager` | `topk_shuffled` | 2.86 ms | 171 µs | **0.350×** (0.339 to 0.360) | 29× | 5 × 12 |" in page
    assert "| `compile` | `topk_shuffled` | 1.00 ms | 60.0 µs | tie (0.970 to 1.03) | 10× | 5 × 12 |" in page
    assert "Method: CPU: monotonic clock around a block of calls; calls a block as listed, one block a round" in page
    assert "Not measured on a GPU: `onnxruntime_cuda`, `tensorrt`, `tensorrt_rtx`." in page


def test_a_refusal_has_stage_code_words_line_and_script(page: str) -> None:
    row = next(line for line in page.split("\n") if "rejected<br>capture<br>`DDS.guard`" in line)
    assert "`GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)" in row
    assert "at `balanced_sampler.py:41`" in row
    assert "`export` ([replay](cpu-2core/repro/balanced_sampler-nonzero-export-n1000-inside.py))" in row
    assert "if positives.numel() > quota:" in page


def test_unavailable_backends_have_a_reason_and_a_remedy(page: str) -> None:
    assert "| `tensorrt` | `ENV.no_package` No module named 'tensorrt' | `pip install " in page
    assert "`ENV.no_device` CUDAExecutionProvider is not in the session | `an NVIDIA GPU` |" in page


def test_a_marked_variant_has_its_footnote(page: str) -> None:
    assert "- `topk` of `balanced_sampler`: `ORDER.biased` positives come first in every draw" in page
    assert "use `topk`" not in page


def test_codes_in_use_are_explained(page: str) -> None:
    assert "| `DDS.guard` | a Python decision hangs on" in page
    assert "CRASH.sigsegv" not in page


def test_every_picture_and_trace_link_resolves_beside_the_page(written: Path, page: str) -> None:
    pictures = re.findall(r"\((cpu-2core/plots/[^)]+)\)", page)
    assert len(pictures) == 6
    assert all((written / picture).is_file() for picture in pictures)
    assert "(cpu-2core/traces/topk-1000.json)" in page


def test_the_same_record_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    report(tmp_path, sample.full())
    files = sorted(path.relative_to(written) for path in written.rglob("*.*"))
    assert len(files) == 7
    assert all((written / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


def test_what_a_compiler_writes_cannot_break_the_page(tmp_path: Path) -> None:
    reason = Reason(code="UNCLASSIFIED", text=NASTY, where="a|b.py:1")
    noted = {NASTY: {"draws": 5, NASTY: {"p": 0.5, "sees_bias_of": 0.1}}}
    cells = [
        sample.cell("nonzero", "compile", verdict="rejected", stage="build", reason=reason, facts={"odd|key": NASTY}),
        sample.cell("nonzero", "tensorrt", verdict="unavailable", reason=reason),
        sample.cell("topk", verdict="wrong", reason=reason),
        sample.cell("topk", "compile", facts={"host_waits_forecast": [NASTY], "verification": {"statistics": noted}},
                    timing=sample.timing(1.0, 2.0, method=NASTY)),
    ]  # fmt: skip
    page = report(tmp_path, Record(environments=[sample.environment(device="x | <y>")], cells=cells))
    assert_sound(page)
    assert "<script>" not in without_code_blocks(page)
    assert "\x1b" not in page


@pytest.mark.usefixtures("no_pictures")
def test_environments_stand_side_by_side(tmp_path: Path) -> None:
    page = report(tmp_path, sample.full("gpu-box"), sample.full("cpu-2core"))
    assert_sound(page)
    assert page.index("## Environment cpu-2core") < page.index("## Environment gpu-box")
    glance = next(table for table in tables(page) if "best gain" in table[0])
    assert [line.split(" | ")[1:3] for line in glance[2:4]] == [["`nonzero`", "cpu-2core"], ["`nonzero`", "gpu-box"]]
    assert "(gpu-box/repro/balanced_sampler-nonzero-export-n1000-inside.py)" in page
    assert "| variant | backend | cpu-2core | gpu-box |" in page
    assert "| `topk_shuffled` | `export` | ✅ accepted<br>0.25× to 3.0× | ✅ accepted<br>0.25× to 3.0× |" in page


@pytest.mark.usefixtures("no_pictures")
def test_what_was_not_reached_is_a_list(tmp_path: Path) -> None:
    missed = [f"balanced_sampler/topk {sample.WORKLOADS[0]}: {name}" for name in ("eager (its time)", "export")]
    flags = {"not_reached": missed, "copy_bytes_per_second_cpu": 44_389_563_882, "sm": "8.9"}
    page = report(tmp_path, Record(environments=[sample.environment(flags=flags)], cells=[sample.cell()]))
    assert_sound(page)
    assert f"- balanced&#95;sampler/topk {sample.WORKLOADS[0]}: `eager (its time)`, `export`\n" in page
    assert "flag `not_reached`" not in page
    assert "| flag `copy_bytes_per_second_cpu` | 44.4 GB/s |" in page


@pytest.mark.usefixtures("no_pictures")
def test_a_card_has_the_articles_tables_and_a_note_on_cpu_backends(tmp_path: Path) -> None:
    whole = sample.full("gpu-box")
    card = sample.environment("gpu-box", device="NVIDIA H200")
    page = report(tmp_path, Record(environments=[card], cells=whole.cells), sample.full())
    assert_sound(page)
    assert page.count("##### The article's tables") == 1
    assert page.count("*(CPU)*: this backend runs on the CPU only") == 2
    assert "| `onnxruntime_cpu` (CPU) | `topk` † |" in page


def test_one_environment_in_two_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SameEnvironment, match="cpu-2core"):
        write_report([sample.full(), sample.full()], tmp_path)


@pytest.mark.parametrize("records", [[], [Record()], [Record(environments=[sample.environment()])]])
def test_an_empty_record_is_a_page_too(tmp_path: Path, records: Sequence[Record]) -> None:
    page = report(tmp_path, *records)
    assert_sound(page)
    assert ("nothing tried" in page) == any(record.environments for record in records)


def test_a_record_of_unavailable_cells_counts_nothing(tmp_path: Path) -> None:
    reason = Reason(code="ENV.no_package", text="No module named 'tensorrt'")
    cells = [sample.cell(variant, "tensorrt", verdict="unavailable", reason=reason) for variant in sample.KINDS]
    page = report(tmp_path, Record(environments=[sample.environment()], cells=cells))
    assert_sound(page)
    assert "0 backends tried, 1 unavailable" in page
    assert "0 of 0" not in page
    assert "No backend was available for this case" in page


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "runners.report", *map(str, arguments)],
                          capture_output=True, text=True, check=False)  # fmt: skip


def test_the_command_merges_and_links_into_the_records_own_folders(tmp_path: Path) -> None:
    paths = [tmp_path / "results" / name / "compat.json" for name in ("cpu-2core", "gpu-box")]
    for path in paths:
        whole = sample.full(path.parent.name)
        few = [cell for cell in whole.cells if cell.backend in ("eager", "export") and cell.workload.n == 1_000]
        write(Record(environments=whole.environments, cells=few), path)
    done = command(*paths, "--output", tmp_path / "page")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page" / "compat.md").read_text(encoding="utf-8")
    assert "(../results/gpu-box/repro/balanced_sampler-nonzero-export-n1000-inside.py)" in page
    assert "(gpu-box/plots/" in page


def test_the_command_says_in_one_sentence_what_is_wrong(tmp_path: Path) -> None:
    damaged = tmp_path / "compat.json"
    damaged.write_text('{"schema": 1, "cells": [{"case"', encoding="utf-8")
    for path, fault in ((tmp_path / "none.json", "does not exist"), (damaged, "is not a compat.json")):
        done = command(path, "--output", tmp_path / "page")
        assert done.returncode == 2
        assert fault in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "page").exists()


def test_no_compiler_is_imported() -> None:
    check = "import sys, runners.report, runners.report.charts; sys.exit(bool({'torch', 'onnx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
