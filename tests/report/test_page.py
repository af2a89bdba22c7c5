"""The pages as a whole: they hold together whatever a compiler writes, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from markdown_it import MarkdownIt

from runners.report import write_report
from runners.report.case_page import page_of
from runners.report.selection import SameEnvironment
from runners.report.text import code
from runners.study.record import Cell, Reason, Record, write
from tests.report import plain, sample

NASTY = 'Error: a | b ``c``\n</details>\n| x | y |\n```\n<script>alert("1")</script> *bold* \x1b[31mred\x1b[0m'
HEADINGS = (
    "Error: no\n\n## Exception summary\n\nSetext\n======\n\n```python\n# a comment\n```\n~~~\n# another\n<h1>x</h1>\n"
)


def report(output: Path, *records: Record) -> str:
    page = write_report(list(records), output)
    assert page == output / "compat.md"
    return read(page)


def read(page: Path) -> str:
    return plain(page.read_text(encoding="utf-8"))


def case_page(output: Path, case: str = sample.CASE) -> str:
    return read(output / page_of(case))


def few(identifier: str = "cpu-2core", case: str = sample.CASE) -> Record:
    """One environment with the cells of two backends at one workload, as those of any case."""
    whole = sample.full(identifier)
    cells = [cell for cell in whole.cells if cell.backend in ("eager", "export") and cell.workload.n == 1_000]
    return Record(environments=whole.environments, cells=[msgspec.structs.replace(cell, case=case) for cell in cells])


def together(*records: Record) -> Record:
    """Records of one environment as one."""
    return Record(environments=records[0].environments, cells=[cell for record in records for cell in record.cells])


def headings(page: str) -> list[str]:
    """The headings that a reader of the rendered page sees."""
    tokens = MarkdownIt().parse(page)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]


def lost_links(page: Path) -> list[str]:
    """The links of a rendered page that lead nowhere."""
    html = MarkdownIt().enable("table").render(read(page))
    lost = []
    for link in re.findall(r'(?:href|src)="([^"]*)"', html):
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert html.count("href=") > 2
    return lost


def anchors(page: Path) -> set[str]:
    """What a link to a place on the page can name."""
    words = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings(read(page))}
    return words | set(re.findall(r'<a id="(.*?)">', read(page)))


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
    return read(written / "compat.md")


@pytest.fixture(scope="module")
def details(written: Path) -> str:
    return case_page(written)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.report.case_page.draw", lambda selection, output: [])


def test_the_four_answers_are_there(page: str) -> None:
    assert_sound(page)
    assert "6 backends tried (eager, the reference, among them), 2 unavailable" in page
    assert "| | `nonzero` | `topk` † | `topk_shuffled` |" in page
    assert "| `eager` | ✅ accepted | ❗ wrong `ORDER.biased` | ✅ accepted |" in page
    assert "❌ rejected from N = 100 000 `LIMIT.topk_k`<br>🔧 built (not run) to N = 10 000" in page
    gain = "0.25× to 3.0×, faster at 1 of 4 workloads"
    assert f"| `export` | use `topk_shuffled` | {gain} | *static rescues* |" in page
    assert "[`balanced_sampler`](#case-balanced_sampler)<br>`nonzero` | 1 of 5 | 0 of 5 | [1.1× (`compile`," in page


def test_the_long_parts_are_on_the_page_of_the_case(page: str, details: str) -> None:
    assert_sound(details)
    assert "| `nonzero` | 1 of 5 | 0 of 5 | 25 | 5 partial, 20 rejected | 10 |" in details
    ours = {"Rates", "What does it gain?", "From which size on?", "What did they say?", "What else was seen"}
    assert ours < set(headings(details))
    assert not ours & set(headings(page))
    assert "```" not in page


def test_times_stand_with_interval_floor_and_method(page: str, details: str) -> None:
    # N = 10 000: 1 ms / 0.35, interval of 3 %, floor 0.1 ms
    assert "| `eager` | `topk_shuffled` | 2.86 ms | 171 µs | **0.350×** (0.339 to 0.360) | 29× | 5 × 12 |" in details
    assert "| `compile` | `topk_shuffled` | 1.00 ms | 60.0 µs | tie (0.970 to 1.03) | 10× | 5 × 12 |" in details
    assert "Method: CPU: monotonic clock around a block of calls; calls a block as listed, one block a round" in details
    assert "Not measured on a GPU: `onnxruntime_cuda`, `tensorrt`, `tensorrt_rtx`." in page


def test_a_refusal_has_stage_code_words_line_and_script(details: str) -> None:
    row = next(line for line in details.split("\n") if "rejected<br>capture<br>`DDS.guard`" in line)
    assert "`GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)" in row
    assert "at `balanced_sampler.py:41`" in row
    assert "`export` ([replay](../cpu-2core/repro/balanced_sampler-nonzero-export-n1000-inside.py))" in row
    assert "if positives.numel() > quota:" in details


def test_unavailable_backends_have_a_reason_and_a_remedy(page: str) -> None:
    assert "| `tensorrt` | `ENV.no_package` No module named 'tensorrt' | `pip install " in page
    assert "`ENV.no_device` CUDAExecutionProvider is not in the session | `an NVIDIA GPU` |" in page


def test_a_marked_variant_has_its_footnote(page: str) -> None:
    assert "- `topk` of `balanced_sampler`: `ORDER.biased` positives come first in every draw" in page
    assert "use `topk`" not in page


def test_codes_in_use_are_explained(page: str) -> None:
    assert "| `DDS.guard` | a Python decision hangs on" in page
    assert "CRASH.sigsegv" not in page


def test_every_link_of_every_page_leads_somewhere(written: Path, page: str, details: str) -> None:
    for cell in sample.full().cells:
        for file in (cell.repro, cell.facts.get("trace")):
            if file:
                path = written / cell.environment / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    assert lost_links(written / "compat.md") == lost_links(written / page_of(sample.CASE)) == []
    assert len(re.findall(r"\(\.\./cpu-2core/plots/[^)]+\)", details)) == 6
    assert "(../cpu-2core/traces/topk-1000.json)" in details
    assert "plots" not in page


def test_the_same_record_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    report(tmp_path, sample.full())
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*") if path.is_file())
    assert len(files) == 8
    assert all((written / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


@pytest.mark.usefixtures("no_pictures")
def test_names_that_are_no_safe_file_names_keep_their_pages_apart(tmp_path: Path) -> None:
    names = ["My case", "my case", "../my_case", "my_case", "a|b `c` #1", "été", "_"]
    record = together(*(few(case=name) for name in names))
    report(tmp_path, record)
    pages = sorted((tmp_path / "cases").iterdir())
    assert len(pages) == len(names)
    assert (tmp_path / "cases" / "my_case.md") in pages
    assert all(re.fullmatch(r"[a-z0-9_]*(-[0-9a-f]{8})?\.md", path.name) for path in pages)
    for name in names:
        assert headings(case_page(tmp_path, name))[0] == code(name)
        assert_sound(case_page(tmp_path, name))
    for page in (tmp_path / "compat.md", *pages):
        assert not [link for link in lost_links(page) if "/repro/" not in link]


@pytest.mark.usefixtures("no_pictures")
def test_pages_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mine.md").write_text("# Written by hand\n")
    report(tmp_path, together(few(), few(case="nms")))
    report(tmp_path, few(case="nms"))
    assert sorted(path.name for path in (tmp_path / "cases").iterdir()) == ["mine.md", "nms.md"]


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
    report(tmp_path, Record(environments=[sample.environment(device="x | <y>")], cells=cells))
    for page in (read(tmp_path / "compat.md"), case_page(tmp_path)):
        assert_sound(page)
        assert "<script>" not in without_code_blocks(page)
        assert "\x1b" not in page


@pytest.mark.usefixtures("no_pictures")
def test_headings_in_a_compilers_words_are_no_headings_of_the_page(tmp_path: Path) -> None:
    def cells(text: str) -> list[Cell]:
        reason = Reason(code="UNCLASSIFIED", text=text, where=text)
        return [
            sample.cell(verdict="wrong", stage="verify", reason=reason),
            sample.cell("topk", "compile", verdict="rejected", stage="build", reason=reason, facts={"said": text}),
            sample.cell(
                "topk", "export", facts={"host_waits_forecast": [text]}, timing=sample.timing(1.0, method=text)
            ),
            sample.cell("topk", "tensorrt", verdict="unavailable", reason=reason),
        ]

    def seen(text: str) -> list[list[str]]:
        flags = {"not_reached": [f"{text}: export"], "said": text}
        about = sample.environment(device=text, cpu=text, flags=flags)
        report(tmp_path, Record(environments=[about], cells=cells(text)))
        return [headings(page) for page in (read(tmp_path / "compat.md"), case_page(tmp_path))]

    harmless = seen("Error: no")
    assert all(harmless)
    for text in (HEADINGS, *HEADINGS.split("\n\n"), "# x"):
        assert seen(text) == harmless


@pytest.mark.usefixtures("no_pictures")
def test_environments_stand_side_by_side(tmp_path: Path) -> None:
    half = sample.full("gpu-box", faster=2.0)
    del half.cells[::2]
    page = report(tmp_path, half, sample.full("cpu-2core"))
    assert_sound(page)
    assert page.index("## Environment cpu-2core") < page.index("## Environment gpu-box")
    glance = next(table for table in tables(page) if "best gain" in table[0])
    assert [line.split(" | ")[:2] for line in glance[2:4]] == [
        ["| [`balanced_sampler`](#case-balanced_sampler)<br>`nonzero`", name] for name in ("cpu-2core", "gpu-box")
    ]
    for question in ("### Does my backend take it, and is the answer right?", "### What do I change?"):
        assert page.count(question) == 1
        answer = page.split(question)[1].split("\n#")[0]
        assert re.findall(r"^On \*\*(.*)\*\*:$", answer, re.MULTILINE) == ["cpu-2core", "gpu-box"]


@pytest.mark.usefixtures("no_pictures")
def test_a_case_has_one_page_with_its_environments_apart(tmp_path: Path) -> None:
    half = sample.full("gpu-box", faster=2.0)
    del half.cells[::2]
    report(tmp_path, half, sample.full("cpu-2core"))
    details = case_page(tmp_path)
    assert_sound(details)
    assert "| variant | backend | cpu-2core | gpu-box |" in details
    assert "| `topk_shuffled` | `export` | ✅ accepted<br>0.25× to 3.0× | ✅ accepted<br>0.25× to 0.35× |" in details
    _, here, there = details.split("## Environment ")
    assert set(re.findall(r"\(\.\./([^/)]+)/", here)) == {"cpu-2core"}
    assert set(re.findall(r"\(\.\./([^/)]+)/", there)) == {"gpu-box"}


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
    details = case_page(tmp_path)
    for text in (page, details):
        assert_sound(text)
        assert text.count("*(CPU)*: this backend runs on the CPU only") == 1
    assert details.count("#### The article's tables") == 1
    assert "| `onnxruntime_cpu` (CPU) | `topk` † |" in details


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
    assert "No backend was available; see [below](#unavailable)" in page
    assert "No backend was available for this case" in case_page(tmp_path)


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "runners.report", *map(str, arguments)],
                          capture_output=True, text=True, check=False)  # fmt: skip


def test_the_command_merges_and_links_into_the_records_own_folders(tmp_path: Path) -> None:
    paths = [tmp_path / "results" / name / "compat.json" for name in ("cpu-2core", "gpu-box")]
    for path in paths:
        write(few(path.parent.name), path)
    done = command(*paths, "--output", tmp_path / "page")
    assert (done.returncode, done.stderr) == (0, "")
    details = case_page(tmp_path / "page")
    assert "(../../results/gpu-box/repro/balanced_sampler-nonzero-export-n1000-inside.py)" in details
    assert "(../gpu-box/plots/" in details


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
