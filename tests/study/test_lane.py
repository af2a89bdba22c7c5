"""Lanes: every way a worker can end is one verdict, and the next lane never notices."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from models.case import Variant, Workload
from runners.study import lane as lane_module
from runners.study.attempt import Outcome, Road
from runners.study.lane import Lane, LaneFailed, Limits, events
from runners.study.worker import Command, Event, Job

CASES = Path(__file__).parent.parent / "cases"


def job(runner: str, case: str = "double.py", variant: str = "Static") -> Job:
    return Job(
        case_path=str(CASES / case),
        directory="",
        variant=Variant(name=variant, class_name=variant, kind="static"),
        road=Road(name="bad", runner=runner, exporters=(), device="cpu"),
    )


def attempt(runner: str, limits: Limits | None = None) -> tuple[Outcome, Lane]:
    lane = Lane(job(runner), limits or Limits())
    lane.start(Command(do="attempt", workload=Workload()))
    try:
        while True:
            for _, word in events([lane]):
                if isinstance(word, Outcome):
                    return word, lane
                if isinstance(word, Event) and word.outcome is not None:
                    return word.outcome, lane
    finally:
        lane.close()


def test_a_segmentation_fault_is_a_crashed_cell() -> None:
    outcome, _ = attempt("tests.bad.crash")
    assert (outcome.verdict, outcome.stage) == ("crashed", "run")
    assert outcome.reason is not None
    assert outcome.reason.code == "CRASH.sigsegv"
    assert outcome.stages["build"].status == "ok"
    assert outcome.stages["run"].status == "failed"
    assert outcome.stages["verify"].status == "not_reached"


def test_a_hang_is_ended_at_the_limit_of_its_stage() -> None:
    outcome, lane = attempt("tests.bad.hang", Limits(seconds={"build": 1.0}))
    assert (outcome.verdict, outcome.stage) == ("timeout", "build")
    assert outcome.reason is not None
    assert outcome.reason.code == "TIME.limit"
    assert not psutil.pid_exists(lane.process.pid or 0) or not lane.process.is_alive()


def test_memory_beyond_the_limit_ends_the_worker() -> None:
    outcome, _ = attempt("tests.bad.hungry", Limits(memory_bytes=1 << 30))
    assert (outcome.verdict, outcome.stage) == ("crashed", "build")
    assert outcome.reason is not None
    assert outcome.reason.code == "MEMORY.host"


def test_a_worker_that_leaves_keeps_its_last_words_and_no_children() -> None:
    outcome, _ = attempt("tests.bad.leaves")
    assert outcome.verdict == "crashed"
    assert outcome.reason is not None
    assert outcome.reason.code == "CRASH.exit"
    assert "exit code 3" in outcome.reason.text
    assert "the last words" in outcome.reason.text
    group = [p for p in psutil.process_iter(["cmdline"]) if "time.sleep(3600)" in " ".join(p.info["cmdline"] or [])]
    assert [p for p in group if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize(
    ("runner", "verdict", "stage", "code"),
    [
        ("tests.bad.elsewhere", "partial", "verify", "FALLBACK.provider"),
        ("tests.bad.opaque", "partial", "verify", "FALLBACK.provider"),
        ("tests.bad.missing", "unavailable", None, "ENV.no_package"),
        ("tests.bad.built", "built", "build", "BUILT.no_run"),
        ("tests.bad.refuses", "rejected", "build", "MEMORY.host"),
    ],
)
def test_what_an_engine_says_of_itself_is_its_verdict(runner: str, verdict: str, stage: str | None, code: str) -> None:
    outcome, _ = attempt(runner)
    assert outcome.reason is not None
    assert (outcome.verdict, outcome.stage, outcome.reason.code) == (verdict, stage, code)


def test_all_that_keeps_an_answer_from_being_accepted_is_told() -> None:
    outcome, _ = attempt("tests.bad.opaque")
    assert outcome.reason is not None
    assert outcome.reason.text == (
        "1 of 2 nodes ran in eager\n\nalso FALLBACK.unseen: AttributeError: no 'graph' in this version"
    )


def test_the_whole_text_of_a_refusal_is_kept_with_its_cause() -> None:
    outcome, _ = attempt("tests.bad.refuses")
    assert outcome.reason is not None
    assert "RuntimeError: the engine could not be built" in outcome.reason.text
    assert "MemoryError: std::bad_alloc" in outcome.reason.text


def test_what_was_built_keeps_its_facts() -> None:
    outcome, _ = attempt("tests.bad.built")
    assert outcome.facts["artifact_bytes"] == 7


def test_eager_is_accepted_and_can_then_be_timed() -> None:
    lane = Lane(job("runners.eager"), Limits())
    try:
        lane.start(Command(do="attempt", workload=Workload()))
        words = []
        while not words or not isinstance(words[-1], Event) or words[-1].outcome is None:
            words += [word for _, word in events([lane])]
        assert [w.outcome.verdict for w in words if isinstance(w, Event) and w.outcome] == ["accepted"]
        assert lane.ask(Command(do="estimate"))["ms"] > 0
        block = lane.ask(Command(do="block", calls=3))
        assert block["block"]["calls"] == 3
    finally:
        lane.close()


def test_a_command_that_fails_is_told_and_the_worker_lives_on() -> None:
    lane = Lane(job("runners.eager"), Limits())
    try:
        with pytest.raises(LaneFailed, match="nothing was attempted"):
            lane.ask(Command(do="block"))
        assert lane.ask(Command(do="forget")) is None
    finally:
        lane.close()


def test_ctrl_c_while_a_worker_is_made_waits_for_it_and_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    start = lane_module._start

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        made.append(start(*arguments))
        return made[0]

    monkeypatch.setattr(lane_module, "_start", interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            Lane(job("tests.bad.crash"), Limits())
    finally:
        signal.signal(signal.SIGINT, handler)
    assert made[0].exitcode is not None


def test_workers_are_made_out_of_reach_of_the_terminal() -> None:
    lane = Lane(job("tests.bad.crash"), Limits())
    try:
        assert os.getsid(psutil.Process(lane.process.pid).ppid()) != os.getsid(0)
    finally:
        lane.close()
