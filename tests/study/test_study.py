"""The study: cells into the record one by one, what is finished is not repeated, one bad lane costs its row."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from models.case import Case, Variant, Workload
from runners import backends
from runners.backends import Backend
from runners.study import interpreters
from runners.study import record as records
from runners.study.attempt import Outcome
from runners.study.closer import Closer
from runners.study.interpreters import NotMade
from runners.study.lane import LaneFailed, Limits
from runners.study.lanes import Lanes, NoRoom, need_room
from runners.study.plan import Round
from runners.study.record import Cell, Environment, Reason, StageOutcome
from runners.study.rounds import Budget
from runners.study.settings import Settings
from runners.study.study import Study, finished
from runners.study.worker import Command, Event

CASES = Path(__file__).parent.parent / "cases"
RUNNERS = ("eager", "crash", "elsewhere", "missing", "refuses_everything")
ENVIRONMENT = Environment(id="here", device="cpu", cpu="x", python="3", packages={}, when="2026-11-29T10:00:00+00:00")


def here() -> Environment:
    """The environment with flags of its own: a study notes in them what it did not reach."""
    return msgspec.structs.replace(ENVIRONMENT, flags={})


def case(name: str, *variants: tuple[str, str]) -> Case:
    return Case(
        name=name,
        path=str(CASES / f"{name}.py"),
        title=name,
        source="",
        variants=tuple(Variant(name=v, class_name=v, kind=k) for v, k in variants),  # type: ignore[arg-type]
    )


DOUBLE = case("double", ("Dynamic", "variable"), ("Static", "static"))


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.cells: list[tuple[str, str, str]] = []

    def making(self, name: str) -> None:
        self.made = name

    def stage(self, cell: Cell, stage: str) -> None:
        pass

    def verdict(self, cell: Cell) -> None:
        self.cells.append((cell.variant, cell.backend, cell.verdict))

    def measuring(self, round_: Round, lanes: int) -> None:
        pass

    def sampled(self, cell: Cell, samples: int) -> None:
        pass


@pytest.fixture
def bad_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.study.attempt import Road

    def road(name: str, options: Any, has_gpu: bool) -> Road:
        package = "runners" if name == "eager" else "tests.bad"
        return Road(name=name, runner=f"{package}.{name}", exporters=(), device="cpu")

    monkeypatch.setattr("runners.study.lanes.road", road)
    monkeypatch.setattr(backends, "BACKENDS", {n: Backend(n, n) for n in RUNNERS})


def settings(deadline: float | None = None) -> Settings:
    return Settings(
        has_gpu=False,
        parallel=2,
        limits=Limits(),
        budget=Budget(seconds_per_cell=0.05, floor_rounds=3, cap_rounds=5),
        options={},
        deadline=deadline,
    )


def study(tmp_path: Path, heard: Heard, earlier: list[Cell] | None = None) -> Study:
    return Study(ENVIRONMENT, tmp_path / "here", settings(), heard, earlier or [])


def rounds(*names: str, of: Case = DOUBLE) -> list[Round]:
    (variable,) = (variant for variant in of.variants if variant.kind == "variable")
    return [
        Round(case=of, workload=Workload(), variant=variant, denominator=variable, backends=names)
        for variant in of.variants
    ]


def test_every_cell_is_recorded_and_only_the_faithful_are_timed(tmp_path: Path, bad_backends: None) -> None:
    heard = Heard()
    study(tmp_path, heard).run(rounds("eager", "crash", "elsewhere", "missing"))
    record = records.read(tmp_path / "here" / "compat.json")
    verdicts = {(c.variant, c.backend): c.verdict for c in record.cells}
    assert verdicts == {
        (variant, backend): verdict
        for variant in ("Dynamic", "Static")
        for backend, verdict in {
            "eager": "accepted", "crash": "crashed", "elsewhere": "partial", "missing": "unavailable",
        }.items()
    }  # fmt: skip
    assert {(c.variant, c.backend) for c in record.cells if c.timing} == {
        (variant, backend) for variant in ("Dynamic", "Static") for backend in ("eager", "elsewhere")
    }
    assert len(heard.cells) == 8
    for cell in record.cells:
        assert cell.repro is not None
        assert (tmp_path / "here" / cell.repro).is_file()


def test_a_lane_goes_on_after_a_refusal(tmp_path: Path, bad_backends: None) -> None:
    workloads = [Workload(seed=seed) for seed in (0, 1)]
    (first, _) = rounds("eager", "refuses_everything")
    study(tmp_path, Heard()).run([msgspec.structs.replace(first, workload=workload) for workload in workloads])
    cells = [c for c in records.read(tmp_path / "here" / "compat.json").cells if c.backend == "refuses_everything"]
    assert [cell.verdict for cell in cells] == ["rejected", "rejected"]
    assert len({cell.reason.text for cell in cells if cell.reason}) == 1


def test_ratios_are_to_eagers_variable_form(tmp_path: Path, bad_backends: None) -> None:
    study(tmp_path, Heard()).run(rounds("eager", "elsewhere"))
    timings = {(c.variant, c.backend): c.timing for c in records.read(tmp_path / "here" / "compat.json").cells}
    reference = timings["Dynamic", "eager"]
    assert reference is not None
    assert reference.ratio == 1.0
    assert all(timing is not None and timing.ratio is not None for timing in timings.values())


def test_a_second_run_repeats_nothing_that_is_finished(tmp_path: Path, bad_backends: None) -> None:
    study(tmp_path, Heard()).run(rounds("eager"))
    path = tmp_path / "here" / "compat.json"
    earlier = records.read(path).cells
    heard = Heard()
    study(tmp_path, heard, earlier).run(rounds("eager", "elsewhere"))
    assert sorted(heard.cells) == [("Dynamic", "elsewhere", "partial"), ("Static", "elsewhere", "partial")]
    cells = records.read(path).cells
    assert len(cells) == 4
    assert all(cell in cells for cell in earlier)


def test_an_interruption_leaves_a_valid_record(tmp_path: Path, bad_backends: None) -> None:
    class Impatient(Heard):
        def verdict(self, cell: Cell) -> None:
            super().verdict(cell)
            if len(self.cells) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, Impatient()).run(rounds("eager", "crash"))
    cells = records.read(tmp_path / "here" / "compat.json").cells
    assert len(cells) == 3
    heard = Heard()
    study(tmp_path, heard, cells).run(rounds("eager", "crash"))
    assert {(c.variant, c.backend) for c in records.read(tmp_path / "here" / "compat.json").cells} == {
        (variant, backend) for variant in ("Dynamic", "Static") for backend in ("eager", "crash")
    }


def test_what_fails_in_eager_is_tried_nowhere_else(tmp_path: Path, bad_backends: None) -> None:
    raises = case("raises_in_eager", ("Dynamic", "variable"), ("Static", "static"))
    heard = Heard()
    study(tmp_path, heard).run(rounds("eager", "elsewhere", of=raises))
    assert sorted(heard.cells) == [
        ("Dynamic", "eager", "rejected"),
        ("Static", "eager", "accepted"),
        ("Static", "elsewhere", "partial"),
    ]
    cells = {(c.variant, c.backend): c for c in records.read(tmp_path / "here" / "compat.json").cells}
    reason = cells["Dynamic", "eager"].reason
    assert reason is not None
    assert cells["Dynamic", "eager"].stage == "run"
    assert reason.where == "raises_in_eager.py:9"
    assert "this module has no answer" in reason.text


class Played(Study):
    """A study whose lanes are played: each attempt comes to what `comes_to` says of a backend and of how many others
    are at work beside it."""

    def __init__(self, tmp_path: Path, comes_to: Callable[[str, int], Outcome], deadline: float | None = None) -> None:
        heard = Heard()
        super().__init__(here(), tmp_path / "here", settings(deadline), heard, [])
        self.heard, self.comes_to = heard, comes_to
        self._lanes = PlayedLanes(self.settings)


class PlayedLanes(Lanes):
    def get(self, round_: Round, variant: Variant, name: str) -> Any:
        return PlayedLane(name)


class PlayedLane:
    directory = Path("/nowhere")

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, command: Any) -> None:
        pass


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, bad_backends: None, tmp_path: Path) -> Callable[..., Played]:
    def played(comes_to: Callable[[str, int], Outcome], names: list[str], deadline: float | None = None) -> Played:
        study = Played(tmp_path, comes_to, deadline)

        def events(lanes: Any) -> list[tuple[Any, Any]]:
            lane, *others = lanes
            return [(lane, Event(outcome=comes_to(lane.name, len(others))))]

        monkeypatch.setattr("runners.study.study.events", events)
        study._attempt(rounds("eager", *names)[0], names)
        return study

    return played


FULL = Outcome(verdict="rejected", stage="run", reason=Reason("MEMORY.device", "out of memory"))
FINE = Outcome(verdict="accepted")


def test_what_the_devices_memory_lacks_room_for_beside_others_is_tried_again_alone(play: Callable[..., Played]) -> None:
    study = play(lambda name, beside: FULL if beside else FINE, ["crash", "elsewhere", "missing"])
    assert {(backend, verdict) for _, backend, verdict in study.heard.cells} == {
        (backend, "accepted") for backend in ("crash", "elsewhere", "missing")
    }


def test_what_does_not_fit_alone_either_is_rejected_and_the_others_go_on(play: Callable[..., Played]) -> None:
    study = play(lambda name, beside: FULL if name == "crash" else FINE, ["crash", "elsewhere"])
    assert sorted(study.heard.cells) == [("Dynamic", "crash", "rejected"), ("Dynamic", "elsewhere", "accepted")]
    (cell,) = [cell for cell in study.cells.values() if cell.backend == "crash"]
    assert cell.reason is not None
    assert (cell.stage, cell.reason.code) == ("run", "MEMORY.device")


def test_the_backend_that_took_longest_is_tried_first_the_next_time(play: Callable[..., Played]) -> None:
    seconds = {"crash": 0.0, "elsewhere": 0.2, "missing": 0.1}

    def slow(name: str, beside: int) -> Outcome:
        time.sleep(seconds[name])
        return FINE

    study = play(slow, ["crash", "elsewhere", "missing"])
    study.settings.parallel = 1
    study.heard.cells.clear()
    study._attempt(rounds("eager", *seconds)[1], list(seconds))
    study._attempt(rounds("eager", *seconds)[1], list(seconds))
    tried = [backend for _, backend, _ in study.heard.cells]
    assert tried[3:] == ["elsewhere", "missing", "crash"]


def test_what_the_deadline_cuts_off_is_not_reached_and_has_no_verdict(play: Callable[..., Played]) -> None:
    soon = time.monotonic() + 0.2

    def cut(name: str, beside: int) -> Outcome:
        time.sleep(max(0.0, soon - time.monotonic() + 0.01))
        return Outcome(verdict="timeout", stage="build", reason=Reason("TIME.limit", "the study's time was up"))

    study = play(cut, ["crash", "elsewhere", "missing"], soon)
    assert study.heard.cells == []
    assert not study.cells
    assert sorted(entry.rpartition(": ")[2] for entry in study.unreached) == ["crash", "elsewhere", "missing"]
    assert records.read(study.folder / "compat.json").environments[0].flags["not_reached"] == study.unreached


class Asked:
    """A lane that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    def ask(self, command: Command) -> dict[str, Any]:
        if command.do == "capture":
            raise LaneFailed("the worker died of SIGABRT")
        self.asked.append(command.do)
        return {"kernels_counted": 3} if command.do == "count" else {}

    def close(self) -> None:
        self.closed = True


def looked(tmp_path: Path, has_gpu: bool, traces: int | None, *looks: tuple[str, str]) -> list[tuple[Asked, Cell]]:
    """What becomes of a fresh lane and its cell at each look at a backend and verdict, one after the other."""
    lanes = Lanes(msgspec.structs.replace(settings(), has_gpu=has_gpu))
    closer = Closer(lanes, here(), tmp_path, traces)
    study = Study(here(), tmp_path, settings(), Heard(), [])
    (round_, _), seen = rounds("eager"), []
    for backend, verdict in looks:
        cell = study._cell(round_, backend, Outcome(verdict=verdict))  # type: ignore[arg-type]
        lane = lanes._alive[round_.variant.name, backend] = Asked()  # type: ignore[assignment]
        closer.look(round_, cell)
        seen.append((lane, cell))
    return seen  # type: ignore[return-value]


def test_on_a_card_a_lane_is_counted_once_and_is_never_timed_after_it(tmp_path: Path) -> None:
    (first, cell), (second, _), (other, _) = looked(
        tmp_path, True, 0, ("eager", "accepted"), ("eager", "accepted"), ("export", "accepted")
    )
    assert (first.asked, first.closed) == (["count"], True)
    assert cell.facts == {"kernels_counted": 3, "cuda_graph": "refused: the worker died of SIGABRT"}
    assert (second.asked, second.closed) == ([], False)
    assert (other.asked, other.closed) == (["count"], True)


def test_a_few_traces_go_to_whole_cells_of_eager_and_compile(tmp_path: Path) -> None:
    looks = [
        ("compile", "partial"),
        ("export", "accepted"),
        ("eager", "wrong"),
        ("compile", "accepted"),
        ("eager", "accepted"),
    ]
    assert [lane.asked for lane, _ in looked(tmp_path, False, 2, *looks)] == [[], [], ["trace"], ["trace"], []]
    assert all(lane.asked == ["trace"] for lane, _ in looked(tmp_path, False, None, *looks))


def test_a_deadline_ends_a_hanging_worker_and_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runners.study.attempt import Road

    def road(name: str, options: Any, has_gpu: bool) -> Road:
        return Road(
            name=name, runner=f"{'runners' if name == 'eager' else 'tests.bad'}.{name}", exporters=(), device="cpu"
        )

    monkeypatch.setattr("runners.study.lanes.road", road)
    monkeypatch.setattr(backends, "BACKENDS", {n: Backend(n, n) for n in ("eager", "hang")})
    began = time.monotonic()
    late = Study(here(), tmp_path / "here", settings(began + 15), Heard(), [])
    late.run(rounds("eager", "hang"))
    assert time.monotonic() - began < 40  # a stage may take 180 s
    record = records.read(late.folder / "compat.json")
    assert {(cell.variant, cell.backend) for cell in record.cells} == {("Dynamic", "eager")}
    assert any(entry.endswith(": hang") for entry in record.environments[0].flags["not_reached"])


@pytest.mark.parametrize(
    ("verdict", "time", "done"),
    [("accepted", "not_reached", False), ("accepted", "ok", True), ("partial", "failed", True),
     ("rejected", "not_reached", True), ("unavailable", "not_reached", True)],
)  # fmt: skip
def test_finished(verdict: Any, time: Any, done: bool) -> None:
    cell = Cell(
        case="c", variant="v", kind="static", backend="b", environment="e", workload=Workload(), verdict=verdict,
        stages={"time": StageOutcome(time)},
    )  # fmt: skip
    assert finished(cell) is done


def test_what_is_recorded_names_no_folder_of_this_machine(tmp_path: Path, bad_backends: None) -> None:
    study(tmp_path, Heard()).run(rounds("eager", "crash", "missing"))
    content = (tmp_path / "here" / "compat.json").read_text()
    for folder in (str(Path.home()), str(CASES.parents[1]), "gauntlet-lane-"):
        assert folder not in content


def test_an_environment_that_cannot_be_made_costs_its_backends_rows_only(
    tmp_path: Path, bad_backends: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Backend("elsewhere", "elsewhere", requirements=("elsewhere==1",))
    monkeypatch.setattr("runners.study.lanes.BACKENDS", {"elsewhere": own})
    monkeypatch.setattr(interpreters, "FOLDER", tmp_path / "environments")

    def no_network(*words: str) -> None:
        raise NotMade(f"Could not find a version of elsewhere==1\n{CASES.parents[1]}/bin/python -m pip")

    monkeypatch.setattr(interpreters, "_run", no_network)
    heard = Heard()
    study(tmp_path, heard).run(rounds("eager", "elsewhere"))
    assert heard.made == "elsewhere"
    cells = {(c.variant, c.backend): c for c in records.read(tmp_path / "here" / "compat.json").cells}
    for variant in ("Dynamic", "Static"):
        assert cells[variant, "eager"].verdict == "accepted"
        missing = cells[variant, "elsewhere"]
        assert missing.reason is not None
        assert (missing.verdict, missing.reason.code) == ("unavailable", "ENV.not_made")
        assert missing.reason.text == "Could not find a version of elsewhere==1\n./bin/python -m pip"


@pytest.mark.parametrize(
    ("verdict", "text", "free", "full"),
    [
        ("rejected", "error writing to /tmp/x.o: No space left on device\nmore", 1 << 30, True),
        ("rejected", "OSError: [Errno 122] Disk quota exceeded", 1 << 30, True),
        ("crashed", "the worker died of SIGBUS", 0, True),
        ("crashed", "the worker died of SIGBUS", 1 << 30, False),
        ("rejected", "the space of shapes is too large", 0, False),
    ],
)
def test_what_a_full_disk_did_is_told_from_what_a_compiler_did(
    verdict: Any, text: str, free: int, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    lane: Any = SimpleNamespace(directory=tmp_path / "lane")
    outcome = Outcome(verdict=verdict, reason=Reason("COMPILER.internal", text))
    with pytest.raises(NoRoom, match=str(tmp_path)) if full else nullcontext():
        need_room(outcome, lane)


def test_a_worker_for_which_there_is_no_room_ends_the_study(
    tmp_path: Path, bad_backends: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def full(source: Any, target: Any) -> None:
        raise shutil.Error([(source, target, "[Errno 28] No space left on device")])

    monkeypatch.setattr("shutil.copytree", full)
    with Lanes(settings()) as lanes:
        (cache,) = temporary.iterdir()
        (cache / "inductor").mkdir()
        with pytest.raises(NoRoom, match=r"a worker cannot be made: .*No space left on device"):
            lanes.ask_alone(Command(do="forget"))
    assert list(temporary.iterdir()) == []
