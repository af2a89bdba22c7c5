"""Environments of their own: made whole or not at all, and a lane in one is a lane like any other."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from models.case import Variant, Workload
from runners.backends import BACKENDS
from runners.study import interpreters
from runners.study.attempt import Outcome, Road
from runners.study.interpreters import ROOT, NotMade, command, home, interpreter, is_made
from runners.study.lane import Lane, Limits, events
from runners.study.worker import Command, Event, Job

NAMED = ("engine@1", ("torch==1", "engine==1"))
CASE = ROOT / "tests" / "cases" / "double.py"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "FOLDER", tmp_path / "environments")


class Installer:
    """Stands in for `venv` and `pip`: notes what is asked, and fails or is interrupted at the step it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **failures: BaseException) -> None:
        self.asked: list[str] = []
        self.failures = failures
        monkeypatch.setattr(interpreters, "_run", self)

    def __call__(self, *words: str) -> None:
        step = words[2]
        self.asked.append(step)
        if step == "venv":
            (Path(words[3]) / "bin").mkdir(parents=True)
        if step in self.failures:
            raise self.failures.pop(step)


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installer = Installer(monkeypatch)
    python = interpreter(*NAMED)
    assert is_made(*NAMED)
    assert interpreter(*NAMED) == python == home(*NAMED) / "bin" / "python"
    assert installer.asked == ["venv", "pip"]


def test_other_requirements_are_another_environment() -> None:
    assert home(*NAMED) != home(NAMED[0], ("torch==2", "engine==1"))


@pytest.mark.parametrize("step", ["venv", "pip"])
@pytest.mark.parametrize("failure", [NotMade("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_is_not_whole_is_not_kept_and_made_anew(
    step: str, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    Installer(monkeypatch, **{step: failure})
    with pytest.raises(KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else NotMade):
        interpreter(*NAMED)
    assert not home(*NAMED).exists()
    assert interpreter(*NAMED).parent.is_dir()


def test_what_a_killed_study_left_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    left = home(*NAMED) / "lib" / "half.py"
    left.parent.mkdir(parents=True)
    left.touch()
    Installer(monkeypatch)
    interpreter(*NAMED)
    assert not left.exists()


def test_of_two_studies_one_makes_it_and_the_other_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    installer = Installer(monkeypatch)
    at_work, go_on = threading.Event(), threading.Event()

    def slow(*words: str) -> None:
        at_work.set()
        assert go_on.wait(30)
        installer(*words)

    monkeypatch.setattr(interpreters, "_run", slow)
    first, second = (threading.Thread(target=interpreter, args=NAMED) for _ in range(2))
    first.start()
    assert at_work.wait(30)
    second.start()
    second.join(0.3)
    assert second.is_alive()
    go_on.set()
    first.join(30)
    second.join(30)
    assert installer.asked == ["venv", "pip"]


def test_without_a_network_the_installers_complaint_comes_first() -> None:
    pytest.importorskip("pip")
    with pytest.raises(NotMade) as told:
        interpreters._run(sys.executable, "-m", "pip", "install", "--no-index", "no-such-engine-of-ours==1")
    first, line, *_ = str(told.value).splitlines()
    assert first.startswith("Could not find a version that satisfies the requirement no-such-engine-of-ours==1")
    assert line == "python -m pip install --no-index no-such-engine-of-ours==1"


def test_an_installation_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "LIMIT_SECONDS", 0.2)
    with pytest.raises(NotMade, match=r"^not done after 0\.2 s"):
        interpreters._run(sys.executable, "-c", "import time; time.sleep(60)")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(interpreters, "FOLDER", tmp_path / "file")
    with pytest.raises(NotMade, match=r"^the environment of engine@1 cannot be written to"):
        interpreter(*NAMED)


def test_its_own_packages_are_met_before_ours() -> None:
    path = subprocess.check_output(command(sys.executable, "print(*sys.path, sep='\\n')"), text=True).splitlines()
    assert path[-1] == str(ROOT)
    assert "" not in path


def attempt(runner: str) -> Outcome:
    """What a lane under another interpreter, here our own, comes to."""
    road = Road(
        name="eager" if runner == "runners.eager" else "bad", runner=runner, exporters=(), device="cpu",
        interpreter=sys.executable, distributions=("numpy",),
    )  # fmt: skip
    variant = Variant(name="Static", class_name="Static", kind="static")
    lane = Lane(Job(case_path=str(CASE), directory="", variant=variant, road=road), Limits(seconds={"build": 1.0}))
    lane.start(Command(do="attempt", workload=Workload()))
    try:
        while True:
            for _, word in events([lane]):
                outcome: Any = word if isinstance(word, Outcome) else isinstance(word, Event) and word.outcome
                if outcome:
                    return outcome  # type: ignore[no-any-return]
    finally:
        lane.close()
        assert lane.process.exitcode is not None


def test_a_lane_there_keeps_the_versions_it_met() -> None:
    outcome = attempt("runners.eager")
    assert outcome.verdict == "accepted"
    assert set(outcome.facts["packages"]) == {"numpy", "torch"}


@pytest.mark.parametrize(
    ("runner", "verdict", "code"),
    [("tests.bad.crash", "crashed", "CRASH.sigsegv"), ("tests.bad.hang", "timeout", "TIME.limit")],
)
def test_a_lane_there_ends_as_any_other(runner: str, verdict: str, code: str) -> None:
    outcome = attempt(runner)
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.reason.code) == (verdict, code)


def test_packages_of_an_own_environment_are_pinned() -> None:
    for backend in BACKENDS.values():
        assert all("==" in requirement for requirement in backend.requirements)
