"""The command as a person uses it: right and wrong arguments, broken files, two at once."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from runners.all import find_cases
from runners.study import record as records

ROOT = Path(__file__).parent.parent
CASES = Path(__file__).parent / "cases"


def study(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runners.all", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def only_record(output: Path) -> records.Record:
    (path,) = output.glob("*/compat.json")
    return records.read(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--case", "balanced"], "unknown case 'balanced'; valid: all, balanced_sampler"),
        (["--variant", "topp"], "unknown variant 'topp'; valid here: nonzero"),
        (["--backend", "tensorflow"], "unknown backend 'tensorflow'; valid: eager, compile"),
        (["--n", "ten"], "'ten' in 'ten' is no size"),
        (["--batch", "some"], "'some' in 'some' is no size"),
        (["--noise", "outside"], "unknown noise 'outside'; valid: inside, input"),
        (["--sm", "9.0"], "does not build for SM '9.0'; valid: 7.5, 8.0, 8.6, 8.9"),
        (["--profile", "slow"], "'slow' is not one of"),
        (["--case", "no/such/file.py"], "there is no case file no/such/file.py"),
    ],
)
def test_wrong_arguments_are_told_with_the_valid_ones(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = study(*arguments, "--output", str(tmp_path / "results"))
    assert result.returncode == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "results").exists()


WHOLE = """
import torch
class A(torch.nn.Module):
    def forward(self, x): return x + 1
def example_inputs(): return (torch.ones(3),)
"""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("def broken(:", "does not parse"),
        ("x = 1", "defines no class derived from nn.Module"),
        ("raise RuntimeError('not today')", "raises when imported: RuntimeError: not today"),
        ("import sys; sys.exit(4)", "raises when imported: SystemExit: 4"),
        ("import os; os._exit(4)", "the worker left with exit code 4"),
        ("import os; os.system('echo first; echo last'); os._exit(4)", "exit code 4; it had printed: last"),
        (
            "import torch\nclass A(torch.nn.Module):\n  def forward(self, x): return x",
            "does not define example_inputs()",
        ),
        (
            "import torch\nclass A(torch.nn.Module):\n  def forward(self, x): return x\ndef example_inputs(): 1 / 0",
            "raises in its inputs for A: ZeroDivisionError",
        ),
        (
            "import torch\nclass A(torch.nn.Module):\n  def forward(self, x): return x\ndef example_inputs(): return 1",
            "must return a tuple",
        ),
        (WHOLE + "EXPECTED = [1]", "has an EXPECTED that is no dictionary but list"),
        (
            WHOLE + "CASE = {'variants': {'b': {'class_name': 'B', 'kind': 'static'}}}",
            "names the class B, which is not there",
        ),
        (WHOLE + "def more_inputs(): return [torch.ones(3)]", "must return a list of tuples, not of Tensor"),
        (WHOLE + "def dynamic_dims(): return 5", "dynamic_dims() must return a tuple, not int"),
        (WHOLE + "def dynamic_dims(): return ({0: 'n'}, {0: 'm'})", "speaks of 2 inputs, there are 1"),
        (WHOLE + "def dynamic_dims(): return ({1: 'n'},)", "names dimension 1 of input 0, which has 1"),
        (WHOLE + "def dynamic_dims(): return (('n', None),)", "names dimension 1 of input 0, which has 1"),
    ],
)
def test_a_broken_case_file_is_told_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(content)
    result = study("--case", str(path), "--output", str(tmp_path / "results"))
    assert result.returncode == 2
    assert words in result.stderr
    assert str(path) in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_a_file_with_the_name_of_another_case_is_refused_since_their_cells_would_mix(tmp_path: Path) -> None:
    content = (CASES / "double.py").read_text()
    (tmp_path / "other").mkdir()
    ours, first, second = tmp_path / "nms.py", tmp_path / "mine.py", tmp_path / "other" / "mine.py"
    for path in (ours, first, second):
        path.write_text(content)
    found, broken = find_cases([str(ours), str(first), str(second)])
    assert [case.path for case in found] == [str(first)]
    assert [message.endswith("; rename your file") for message in broken] == [True, True]
    assert broken[0].startswith(f"{ours} has the name of ")


def test_a_case_of_ours_may_be_named_by_its_path_too() -> None:
    found, broken = find_cases([str(ROOT / "models" / "nms.py"), "nms"])
    assert [case.name for case in found] == ["nms"]
    assert broken == []


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def broken(:")
    result = study(
        "--case",
        str(broken),
        "--case",
        str(CASES / "double.py"),
        "--backend",
        "export",
        "--output",
        str(tmp_path / "r"),
    )
    assert result.returncode == 2
    assert "broken.py does not parse" in result.stderr
    cells = {(c.variant, c.backend): c.verdict for c in only_record(tmp_path / "r").cells}
    assert cells["Static", "export"] == "accepted"
    assert (tmp_path / "r" / "compat.md").is_file()


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I was here")
    result = study("--case", str(CASES / "double.py"), "--backend", "eager", "--output", str(tmp_path / "file"))
    assert result.returncode == 2
    assert "cannot write to" in result.stderr
    assert (tmp_path / "file").read_text() == "I was here"


def test_a_disk_that_fills_leaves_the_record_as_it_was(tmp_path: Path) -> None:
    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))

    output = tmp_path / "results"
    arguments = ("--case", str(CASES / "double.py"), "--backend", "export", "--output", str(output))
    result = study(*arguments, preexec_fn=small_disk)
    assert result.returncode == 2
    assert (
        result.stderr.strip() == f"error: cannot write to {output}: File too large; what was recorded before is whole"
    )
    assert only_record(output).cells


def test_a_disk_that_fills_under_a_compiler_is_no_verdict_on_it(tmp_path: Path) -> None:
    result = study("--case", str(CASES / "no_room.py"), "--backend", "export", "--output", str(tmp_path))
    assert result.returncode == 2
    assert "is full (OSError: [Errno 28] No space left on device): make room or point TMPDIR" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert [cell.backend for cell in only_record(tmp_path).cells] == ["eager"]


def test_a_second_study_on_one_folder_says_so(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".study.lock"):
        result = study("--case", str(CASES / "double.py"), "--backend", "eager", "--output", str(tmp_path))
    assert result.returncode == 2
    assert "another study is writing to" in result.stderr


def test_a_damaged_record_is_told_and_kept(tmp_path: Path) -> None:
    arguments = ("--case", str(CASES / "double.py"), "--backend", "eager", "--output", str(tmp_path))
    assert study(*arguments).returncode == 0
    (path,) = tmp_path.glob("*/compat.json")
    path.write_text('{"schema": 1, "cells": [')
    result = study(*arguments, "--resume")
    assert result.returncode == 2
    assert "is not a compat.json of schema 1" in result.stderr
    assert path.read_text() == '{"schema": 1, "cells": ['


def test_a_new_study_keeps_the_old_record_aside(tmp_path: Path) -> None:
    arguments = ("--case", str(CASES / "double.py"), "--backend", "eager", "--output", str(tmp_path))
    study(*arguments)
    before = only_record(tmp_path)
    study(*arguments)
    (previous,) = tmp_path.glob("*/compat.previous.json")
    assert records.read(previous) == before


def test_a_study_that_goes_on_keeps_what_the_first_one_measured_of_the_machine(tmp_path: Path) -> None:
    arguments = ("--n", "1000", "--batch", "none", "--noise", "input", "--backend", "eager", "--output", str(tmp_path))
    assert study(*arguments, "--variant", "nonzero").returncode == 0
    (path,) = tmp_path.glob("*/compat.json")
    first = records.read(path)
    (environment,) = first.environments
    assert environment.flags["copy_bytes_per_second_cpu"] > 0
    environment.flags |= {"copy_bytes_per_second_cpu": 1_000_000, "not_reached": ["what was not"]}
    records.write(first, path)
    assert study(*arguments, "--variant", "topk", "--resume").returncode == 0
    both = records.read(path)
    del environment.flags["not_reached"]
    assert both.environments == [environment]
    (cell,) = (cell for cell in both.cells if cell.variant == "topk")
    assert cell.timing is not None
    assert cell.timing.floor_ms == pytest.approx(cell.facts["floor_bytes"] / 1_000_000 * 1e3)


def cut_off(output: Path, number: int, shell: Sequence[str] = ()) -> tuple[int, str]:
    """A study, started by `shell`, that gets this signal as soon as it has a record: its exit code and its errors."""
    arguments = ["--n", "1000", "--batch", "none", "--noise", "input", "--backend", "export"]  # nothing to prepare
    process = subprocess.Popen(
        [*shell, sys.executable, "-m", "runners.all", *arguments, "--output", str(output)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(output.glob("*/compat.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""As a shell without job control starts what ends in `&`."""


@pytest.mark.parametrize("shell", [(), IN_THE_BACKGROUND])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_that_is_asked_for_leaves_a_valid_record_and_says_how_to_resume(
    tmp_path: Path, number: int, shell: Sequence[str]
) -> None:
    code, errors = cut_off(tmp_path, number, shell)
    assert code == 130
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert only_record(tmp_path).cells


def test_a_killed_study_leaves_a_record_that_the_report_takes(tmp_path: Path) -> None:
    code, _ = cut_off(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    (path,) = tmp_path.glob("*/compat.json")
    cells = records.read(path).cells
    assert cells
    page = subprocess.run(
        [sys.executable, "-m", "runners.report", str(path), "--output", str(tmp_path / "page")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    text = Path(page).read_text()
    assert all(f"`{cell.backend}`" in text for cell in cells)


def test_the_list_names_every_case_variant_and_backend() -> None:
    from models.case import catalogue
    from runners.backends import BACKENDS

    result = study("--list")
    assert result.returncode == 0
    for case in catalogue():
        assert case.name in result.stdout
    words = "".join(result.stdout.split())  # a narrow terminal breaks names
    for name in BACKENDS:
        assert name in words


def test_a_cells_script_replays_it(tmp_path: Path) -> None:
    study("--case", str(CASES / "double.py"), "--backend", "compile_fullgraph", "--output", str(tmp_path))
    (cell,) = [c for c in only_record(tmp_path).cells if (c.variant, c.backend) == ("Dynamic", "compile_fullgraph")]
    (folder,) = (path.parent for path in tmp_path.glob("*/compat.json"))
    result = subprocess.run(
        [sys.executable, str(folder / str(cell.repro))], cwd=ROOT, capture_output=True, text=True, check=True
    )
    told = result.stdout.splitlines()
    assert told[0].startswith(cell.verdict)
    assert cell.reason is None or told[1].startswith(cell.reason.code)
