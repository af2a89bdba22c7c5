"""Verification: every bad backend lands in its code, and nothing faithful raises an alarm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import models
from exporters.exporter import Finding, Request
from models.case import CaseModule, Workload, load
from runners.study.anew import Anew
from runners.study.verify import Broke, Subject, verify
from tests.study import bad_backends as bad

CASES = Path(__file__).parent / "cases"
SAMPLER = Path(models.__file__).parent / "balanced_sampler.py"

Make = Callable[[nn.Module], Callable[..., Any]]


@pytest.fixture(autouse=True)
def as_many_draws_as_are_ever_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine draws slowly, and what few draws show is another question."""
    monkeypatch.setattr("runners.study.verify.DRAWING_SECONDS", 60.0)


def judged(
    path: Path,
    name: str,
    make: Make = bad.faithful,
    workload: Workload | None = None,
    load_seconds: float = 0.0,
    **about: Any,
) -> Request:
    """The request after verification of a backend made from the variant's module."""
    case = load(path)
    variant, workload = case.case.variant(name), workload or Workload()
    module = case.build(variant, workload)
    request = Request(inputs=case.inputs(variant, workload), device="cpu", directory=path.parent)
    request.facts["load_seconds"] = load_seconds
    about.setdefault("reload", None)
    for again in ("reload", "rebuild"):
        if about.get(again):
            about[again] = lambda: make(module)
    verify(Subject(make(module), module, **about), case, variant, workload, request)
    json.dumps(request.facts)
    return request


def codes(request: Request) -> list[tuple[str, str]]:
    return [(finding.verdict, finding.code) for finding in request.findings]


def sampler(noise: str, batch: int | None, n: int = 200) -> Workload:
    return Workload(
        n=n,
        k=n // 10,
        batch=batch,
        dim=6,
        dtype="float32",
        label_dtype="int64",
        positives=0.5,
        noise=noise,
        seed=0,  # type: ignore[arg-type]
    )


def variants() -> list[tuple[str, str]]:
    found = []
    for path in sorted(CASES.glob("*.py")):
        module: CaseModule = load(path)
        found += [(path.name, variant.name) for variant in module.case.variants]
    return found


UNSEEN = {("drawn.py", "Never")}
UNINFORMATIVE = {("plain.py", "Zeros"), *UNSEEN} | {
    ("silent.py", name) for name in ("Never", "NotANumber", "Empty", "Number", "Nothing")
}
FLAWED_IN_EAGER = {
    ("distinct.py", name): f"RNG.{flaw}"
    for name, flaw in (("With", "repeats"), ("Frozen", "frozen"), ("Seeded", "frozen"))
}


@pytest.mark.parametrize(("file", "name"), variants())
def test_eager_keeps_its_own_contract(file: str, name: str) -> None:
    request = judged(CASES / file, name, is_eager=True, other_shapes=True)
    flaw = FLAWED_IN_EAGER.get((file, name))
    unseen = [("partial", "VALUE.uninformative")] if (file, name) in UNSEEN else []
    assert codes(request) == ([("wrong", flaw)] if flaw else unseen)


@pytest.mark.parametrize("make", [bad.faithful, bad.flat])
@pytest.mark.parametrize(("file", "name"), variants())
def test_a_faithful_backend_raises_no_alarm(file: str, name: str, make: Make) -> None:
    expected = [("partial", "VALUE.uninformative")] if (file, name) in UNINFORMATIVE else []
    assert codes(judged(CASES / file, name, make, other_shapes=True, reload=True, rebuild=True)) == expected


def test_an_output_that_the_draw_changes_only_rarely_raises_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        monkeypatch.setattr("runners.study.verify.SEED", seed)
        assert codes(judged(CASES / "drawn.py", "Rarely")) == []
    constant = bad.replaced(lambda x: (x + 2, torch.rand(3)))
    assert codes(judged(CASES / "drawn.py", "Rarely", constant)) == [("wrong", "VALUE.mismatch")]


def test_a_frozen_draw_is_found_where_it_shows_only_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four runs of eager mostly agree there, and none of them then says that the output is drawn."""
    found = []
    for seed in range(5):
        monkeypatch.setattr("runners.study.verify.SEED", seed)
        request = judged(CASES / "drawn.py", "Seldom", bad.replaced(lambda x: x + 1))
        found.append((request.facts["verification"]["random_outputs"], codes(request)))
        assert codes(judged(CASES / "drawn.py", "Seldom")) == []
    assert all(code == [("wrong", "RNG.frozen")] for _, code in found)
    assert any(not outputs for outputs, _ in found)


@pytest.mark.parametrize(
    ("file", "name", "make", "code"),
    [
        ("plain.py", "Floats", bad.wrong_values, "VALUE.mismatch"),
        ("plain.py", "Moved", bad.wrong_values, "VALUE.mismatch"),
        ("plain.py", "Integers", bad.wrong_values, "VALUE.mismatch"),
        ("plain.py", "Floats", bad.wrong_shape, "SHAPE.mismatch"),
        ("plain.py", "Floats", bad.wrong_dtype, "DTYPE.mismatch"),
        ("plain.py", "Integers", bad.wrong_dtype, "DTYPE.mismatch"),
        ("plain.py", "Integers", bad.missing_output, "STRUCTURE.mismatch"),
        ("plain.py", "Floats", bad.changed_input, "INPUT.changed"),
        ("plain.py", "Floats", bad.poisoned_constant, "ALIAS.constant"),
        ("plain.py", "Integers", bad.poisoned_constant, "ALIAS.constant"),
        ("writes.py", "Writes", bad.changed_input, "INPUT.changed"),
        ("varying.py", "Doubled", bad.silently_specialised, "SHAPE.mismatch"),
        ("drawn.py", "Noisy", bad.frozen_draw, "RNG.frozen"),
        ("drawn.py", "Shuffle", bad.frozen_draw, "RNG.frozen"),
        ("drawn.py", "SomeOf", bad.frozen_draw, "RNG.frozen"),
        ("drawn.py", "Noisy", bad.cycling_draw, "RNG.repeats"),
        ("distinct.py", "Without", bad.frozen_draw, "RNG.frozen"),
        ("distinct.py", "Without", bad.replaced(lambda w: torch.multinomial(w, 4, replacement=True)), "RNG.repeats"),
        ("drawn.py", "Rows", bad.replaced(lambda x: x[torch.randint(8, (8,))]), "RNG.distribution"),
        ("drawn.py", "Rows", bad.replaced(lambda x: x.roll(int(torch.randint(8, ())))), "RNG.repeats"),
        ("drawn.py", "Noisy", bad.replaced(lambda x: x + 0.7 * torch.rand_like(x)), "RNG.distribution"),
        ("drawn.py", "Noisy", bad.replaced(lambda x: x + torch.rand(1)), "RNG.distribution"),
        ("drawn.py", "Normal", bad.replaced(lambda x: torch.rand(x.shape[0])), "RNG.distribution"),
        ("drawn.py", "Coins", bad.replaced(lambda x: torch.rand(12) < 0.5), "RNG.distribution"),
        # of 2^8 answers mostly nine: which of the two is seen first depends on how many draws fitted
        (
            "drawn.py",
            "SomeOf",
            bad.replaced(lambda x: x[torch.rand(x.shape[0]) < 0.9]),
            "RNG.distribution or RNG.repeats",
        ),
        ("drawn.py", "Shuffle", bad.replaced(lambda x: (torch.randperm(12), x + 1)), "VALUE.mismatch"),
    ],
)
def test_what_is_wrong_lands_in_its_code(file: str, name: str, make: Make, code: str) -> None:
    request = judged(CASES / file, name, make, other_shapes=file == "varying.py")
    verdict, found = codes(request)[0]
    assert verdict == "wrong", request.findings
    assert found in code.split(" or "), request.findings


BAD_SAMPLERS: list[tuple[Make, str | None, str | None]] = [
    # the backend; its code with noise inside, and with noise as input; None where that has no such fault
    (bad.wrong_values, "VALUE.not_in_input", "VALUE.mismatch"),
    (bad.wrong_shape, "SHAPE.mismatch", "SHAPE.mismatch"),
    (bad.wrong_dtype, "DTYPE.mismatch", "DTYPE.mismatch"),
    (bad.changed_input, "INPUT.changed", "INPUT.changed"),
    (bad.repeated_item, "RNG.repeats", "VALUE.mismatch"),
    (bad.biased_order, "ORDER.biased", "VALUE.mismatch"),
    (bad.frozen_draw, "RNG.frozen", None),
    (bad.cycling_draw, "RNG.repeats", None),
    (bad.biased_inclusion, "INCLUSION.biased", "VALUE.mismatch"),
    (bad.poisoned_constant, "ALIAS.constant", "ALIAS.constant"),
    (bad.missing_output, "STRUCTURE.mismatch", "STRUCTURE.mismatch"),
]


@pytest.mark.parametrize("batch", [None, 32])
@pytest.mark.parametrize(
    ("make", "noise", "code"),
    [(make, "inside", inside) for make, inside, _ in BAD_SAMPLERS if inside]
    + [(make, "input", given) for make, _, given in BAD_SAMPLERS if given],
)
def test_a_bad_sampler_lands_in_its_code(make: Make, noise: str, code: str, batch: int | None) -> None:
    request = judged(SAMPLER, "topk_shuffled", make, sampler(noise, batch))
    assert codes(request)[0] == ("wrong", code), request.findings


def test_rows_of_a_batch_that_draw_alike() -> None:
    request = judged(SAMPLER, "topk_shuffled", bad.rows_alike, sampler("inside", 32))
    assert codes(request)[0] == ("wrong", "RNG.repeats")


@pytest.mark.parametrize("batch", [None, 32])
@pytest.mark.parametrize("noise", ["inside", "input"])
def test_a_reused_output_buffer_makes_the_sampler_partial(noise: str, batch: int | None) -> None:
    request = judged(SAMPLER, "topk_shuffled", bad.reused_output, sampler(noise, batch))
    assert codes(request) == [("partial", "ALIAS.output")]


@pytest.mark.parametrize("batch", [None, 32])
@pytest.mark.parametrize("noise", ["inside", "input"])
def test_a_sampler_that_takes_the_examples_size_only_is_partial(noise: str, batch: int | None) -> None:
    """With noise inside its answers are not exact, and with a large batch not small: then no other size is tried."""
    request = judged(SAMPLER, "topk_shuffled", bad.specialised, sampler(noise, batch, n=50), other_shapes=True)
    assert codes(request) == ([("partial", "SHAPE.refused")] if noise == "input" else [])


@pytest.mark.parametrize(
    ("file", "name", "make", "code"),
    [
        ("plain.py", "Floats", bad.reused_output, "ALIAS.output"),
        ("drawn.py", "Noisy", bad.reused_output, "ALIAS.output"),
        ("varying.py", "Doubled", bad.specialised, "SHAPE.specialised"),
    ],
)
def test_a_hazard_is_partial(file: str, name: str, make: Make, code: str) -> None:
    assert codes(judged(CASES / file, name, make, other_shapes=True)) == [("partial", code)]


def test_an_answer_in_the_memory_of_the_input_is_partial() -> None:
    class Copied(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

    from runners.study import hands

    example = (torch.arange(3.0),)
    found = hands.judge(bad.returned_input(Copied()), Copied(), [example], frozenset())
    assert [finding.code for finding in found] == ["ALIAS.input"]
    assert hands.judge(Copied(), Copied(), [example], frozenset()) == []


def test_a_refusal_of_the_examples_shapes_says_at_which_input() -> None:
    with pytest.raises(Broke, match=r"at more_inputs\(\)\[1\]: RuntimeError: the engine gave up") as caught:
        judged(CASES / "plain.py", "Floats", bad.gives_up)
    assert caught.value.input_name == "more_inputs()[1]"


def test_a_refusal_of_other_shapes_is_noted_where_none_were_promised() -> None:
    request = judged(CASES / "varying.py", "Doubled", bad.specialised)
    assert codes(request) == []
    assert "more_inputs()[0]" in request.facts["verification"]["refused_dynamic_shapes"]


def test_a_wrong_answer_to_shapes_that_were_never_promised_is_a_hazard_of_a_right_cell() -> None:
    request = judged(CASES / "unpromised.py", "Doubled", bad.silently_specialised)
    assert codes(request) == [("partial", "SHAPE.unchecked")]
    assert "more_inputs()[0]" in request.findings[0].text
    promised = judged(CASES / "unpromised.py", "Doubled", bad.silently_specialised, other_shapes=True)
    assert codes(promised)[0] == ("wrong", "SHAPE.mismatch")


def test_an_engine_that_a_refusal_breaks_is_judged_whole_and_left_usable() -> None:
    made = []

    def make(module: nn.Module) -> Callable[..., Any]:
        made.append(bad.broken_by_refusing(module))
        made[-1](torch.arange(12.0).reshape(4, 3))
        return made[-1]

    assert codes(judged(CASES / "varying.py", "Doubled", make, reload=True)) == []
    made[0](torch.arange(12.0).reshape(4, 3))


@pytest.mark.parametrize(("make", "kept"), [(bad.faithful, False), (bad.specialised, True)])
def test_calls_of_every_size_refute_an_exporter(make: Make, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding("partial", "SHAPE.specialised", "asked dynamic, became constant: x.shape[0] = 4")
    monkeypatch.setattr(Request, "__init__", _with_finding(Request.__init__, found))
    request = judged(CASES / "varying.py", "Doubled", make, other_shapes=True)
    assert (found in request.findings) is kept
    assert request.facts["verification"].get("refuted", []) == ([] if kept else [found.text])


def _with_finding(create: Callable[..., None], finding: Finding) -> Callable[..., None]:
    def wrapped(self: Request, **about: Any) -> None:
        create(self, **about)
        self.findings.append(finding)

    return wrapped


def test_what_was_covered_is_recorded() -> None:
    request = judged(CASES / "plain.py", "Zeros")
    facts = request.facts["verification"]
    assert facts["inputs"] == ["the example", "more_inputs()[0]", "more_inputs()[1]"]
    assert facts["elements"] == 3 * 18
    assert facts["uninformative_outputs"] == [0]


def test_a_fresh_load_that_repeats_is_recorded() -> None:
    def make(module: nn.Module) -> Callable[..., Any]:
        generator = torch.Generator().manual_seed(3)
        return lambda x: x + torch.rand(x.shape, generator=generator)

    request = judged(CASES / "drawn.py", "Noisy", make, reload=True)
    assert codes(request) == []
    assert request.facts["verification"]["fresh_load_repeats_the_draw"] is True
    live = judged(CASES / "drawn.py", "Noisy", reload=True)
    assert live.facts["verification"]["fresh_load_repeats_the_draw"] is False


def test_what_is_slow_to_load_is_loaded_once() -> None:
    loads = []

    def make(module: nn.Module) -> Callable[..., Any]:
        loads.append(module)
        return module

    for seconds in (0.0, 60.0):
        loads.clear()
        request = judged(CASES / "drawn.py", "Noisy", make, reload=True, load_seconds=seconds)
        assert codes(request) == []
        assert (len(loads) > 1) is (seconds == 0.0)
        assert ("fresh_load_repeats_the_draw" in request.facts["verification"]) is (seconds == 0.0)


def test_a_frozen_draw_says_where_it_was_made() -> None:
    def drawn_by(noise: torch.Tensor) -> Callable[..., Any]:
        return lambda x: x + noise[: x.numel()].reshape(x.shape)

    def frozen(reload: bool, rebuild: bool) -> tuple[str, dict[str, Any]]:
        """A backend with a draw that a fresh load, and a fresh build, repeat or not."""
        module = load(CASES / "drawn.py").case.variant("Noisy")
        noise = torch.rand(100)
        again = {
            "reload": lambda: drawn_by(noise if reload else torch.rand(100)),
            "rebuild": lambda: drawn_by(noise if rebuild else torch.rand(100)),
        }
        case = load(CASES / "drawn.py")
        request = Request(inputs=case.inputs(module, Workload()), device="cpu", directory=CASES)
        subject = Subject(drawn_by(noise), case.build(module, Workload()), **again)
        verify(subject, case, module, Workload(), request)
        (finding,) = request.findings
        assert (finding.verdict, finding.code) == ("wrong", "RNG.frozen")
        return finding.text, request.facts["verification"]

    text, facts = frozen(reload=True, rebuild=True)
    assert "loaded anew, it draws the same: the draw is baked into the artifact; built anew, it draws the same" in text
    assert (facts["fresh_load_repeats_the_draw"], facts["rebuild_repeats_the_draw"]) == (True, True)
    text, facts = frozen(reload=True, rebuild=False)
    assert text.endswith("built anew, it draws something else: the draw was made while it was built")
    assert facts["rebuild_repeats_the_draw"] is False
    text, facts = frozen(reload=False, rebuild=False)
    assert text.endswith("loaded anew, it draws something else")
    assert "rebuild_repeats_the_draw" not in facts


@pytest.mark.parametrize("make", [bad.faithful, bad.seeded_at_load])
def test_a_live_draw_is_built_anew_only_where_a_fresh_load_repeats_it(make: Make) -> None:
    facts = judged(CASES / "drawn.py", "Noisy", make, reload=True, rebuild=True).facts["verification"]
    repeats = make is bad.seeded_at_load
    assert facts["fresh_load_repeats_the_draw"] is repeats
    assert facts.get("rebuild_repeats_the_draw") == (True if repeats else None)


def test_what_is_slow_to_build_is_not_built_anew() -> None:
    for seconds in (0.0, 60.0):
        again = Anew((), lambda: lambda: torch.ones(1), lambda: lambda: torch.ones(1), 0.0, seconds)
        assert ("rebuild_repeats_the_draw" in again.facts([0])) is (seconds == 0.0)
        assert ("rebuild_repeats_the_draw" in again.facts_of_frozen(lambda: torch.ones(1), [0])) is (seconds == 0.0)


def test_a_road_that_fails_the_second_time_leaves_the_verdict_alone() -> None:
    def refuse() -> Callable[..., Any]:
        raise RuntimeError("not twice")

    again = Anew((), lambda: lambda: torch.ones(1), refuse, 0.0, 0.0)
    facts = again.facts([0])
    assert facts == {"fresh_load_repeats_the_draw": True, "anew_error": "RuntimeError: not twice"}


@pytest.mark.parametrize(
    ("file", "name", "informative"),
    [
        ("plain.py", "Zeros", False),
        ("silent.py", "Never", False),
        ("silent.py", "NotANumber", False),
        ("silent.py", "Empty", False),
        ("silent.py", "Number", False),
        ("silent.py", "Nothing", False),
        ("silent.py", "Writes", True),
        ("silent.py", "Beside", True),
        ("silent.py", "OnlyTheExample", True),
        ("plain.py", "Nothing", True),
        ("drawn.py", "Noisy", True),
    ],
)
def test_a_comparison_that_could_not_have_failed_is_never_a_pass_by_itself(
    file: str, name: str, informative: bool
) -> None:
    expected = [] if informative else [("partial", "VALUE.uninformative")]
    assert codes(judged(CASES / file, name)) == expected
    assert codes(judged(CASES / file, name, is_eager=True)) == []


@pytest.mark.parametrize("noise", ["inside", "input"])
def test_inputs_are_made_when_their_turn_comes_and_few_are_kept(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.study.verify.FURTHER_SECONDS", 0.0)
    made = []
    original = CaseModule.inputs
    monkeypatch.setattr(CaseModule, "inputs", lambda self, *about: (made.append(about[2:]), original(self, *about))[1])
    further, edges = CaseModule.more_inputs, []
    monkeypatch.setattr(
        CaseModule,
        "more_inputs",
        lambda self, *about: ((edges.append(given), given)[1] for given in further(self, *about)),
    )
    request = judged(SAMPLER, "topk_shuffled", workload=sampler(noise, None))
    assert len(made) == 1 and len(edges) == 1  # the example, and one that shows that there are more
    assert request.facts["verification"]["inputs_left_out_for_time"] is True


def test_edges_come_before_further_seeds() -> None:
    """So that a road with time for a few inputs is not called right on seeds like the example alone."""
    workload = sampler("inside", None)
    inputs = judged(SAMPLER, "topk_shuffled", workload=workload).facts["verification"]["inputs"]
    assert inputs[:2] == ["the example", "0 positives"]
    assert inputs.index(f"{workload.n} positives") < inputs.index("seed 1")


def test_the_last_input_leaves_none_out_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.study.verify.FURTHER_SECONDS", 0.0)
    facts = judged(CASES / "ranked.py", "Ranked").facts["verification"]
    assert len(facts["inputs"]) == 1
    further = len(list(load(CASES / "ranked.py").more_inputs(load(CASES / "ranked.py").case.variants[0], Workload())))
    assert ("inputs_left_out_for_time" in facts) is (further > 0)


def test_memory_that_a_later_replay_took_is_an_overwritten_output() -> None:
    from runners.study import hands

    class Replayed(torch.Tensor):
        """As CUDA graph trees leave an output: no address once a later replay ran."""

        def data_ptr(self) -> int:
            raise RuntimeError("accessing tensor output of CUDAGraphs that has been overwritten")

    buffer = torch.zeros(3)

    def call(x: torch.Tensor) -> torch.Tensor:
        return buffer.copy_(x + 1).as_subclass(Replayed)

    examples = [(torch.arange(3.0),), (torch.ones(3),)]
    found = hands.judge(call, lambda x: x + 1, examples, frozenset())
    assert [(finding.verdict, finding.code) for finding in found] == [("partial", "ALIAS.output")]


def exported(module: nn.Module, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    return torch.export.export(module, inputs).module()


def compiled(module: nn.Module, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(module, backend="aot_eager")


def run_by_onnxruntime(module: nn.Module, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert program is not None
    content = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return lambda *given: session.run(None, dict(zip(names, (one.numpy() for one in given), strict=True)))


FAULTS_OF_ONNX_RUNTIME = {
    ("distinct.py", "Without"): "RNG.repeats",
    ("silent.py", "NotANumber"): "VALUE.mismatch",  # the mean of nothing is 0 there
}


@pytest.mark.slow
@pytest.mark.parametrize("road", [exported, compiled, run_by_onnxruntime])
@pytest.mark.parametrize(("file", "name"), variants())
def test_real_roads_raise_no_false_alarm(file: str, name: str, road: Callable[..., Any]) -> None:
    case = load(CASES / file)
    inputs = case.inputs(case.case.variant(name), Workload())
    module = case.build(case.case.variant(name), Workload())
    try:
        with torch.no_grad():
            road(module, inputs)(*[given.clone() for given in inputs])
    except Exception as error:
        pytest.skip(f"refused: {error}")
    found = codes(judged(CASES / file, name, lambda built: road(built, inputs), other_shapes=road is compiled))
    if known := FAULTS_OF_ONNX_RUNTIME.get((file, name)) if road is run_by_onnxruntime else None:
        assert found == [("wrong", known)]
    else:
        assert found == ([("partial", "VALUE.uninformative")] if (file, name) in UNINFORMATIVE else [])


def test_ties_are_no_fault_and_are_counted() -> None:
    def other_ties(scores: torch.Tensor) -> Any:
        index = torch.tensor([5, 2, 0])
        return scores[index], index

    request = judged(CASES / "ranked.py", "Ranked", bad.replaced(other_ties))
    assert codes(request) == []
    assert request.facts["verification"]["ties"] > 0


@pytest.mark.parametrize("wrong", [[5, 5, 0], [5, 1, 0], [5, 2, 9]])
def test_indices_that_are_no_ties_are_wrong(wrong: list[int]) -> None:
    def call(scores: torch.Tensor) -> Any:
        return torch.full((3,), 5.0), torch.tensor(wrong)

    request = judged(CASES / "ranked.py", "Ranked", bad.replaced(call))
    assert codes(request) == [("wrong", "VALUE.mismatch")]


def test_verification_leaves_torchs_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    judged(CASES / "drawn.py", "Noisy")
    assert torch.equal(before, torch.get_rng_state())


STATEFUL = ["Counter", "Running", "Hidden", "Remembered", "Number", "Late", "Cache", "Drawing"]


@pytest.mark.parametrize("name", STATEFUL)
@pytest.mark.parametrize("rebuild", [True, None])
def test_a_lost_state_is_found_and_a_kept_one_is_no_draw(name: str, rebuild: bool | None) -> None:
    kept = judged(CASES / "stateful.py", name, rebuild=rebuild, reload=True)
    assert codes(kept) == []
    facts = kept.facts["verification"]
    assert facts["keeps_state"]
    assert facts["random_outputs"] == ([1] if name == "Drawing" else [])
    assert ("fresh_load_repeats_the_draw" in facts) is (name == "Drawing")
    assert codes(judged(CASES / "stateful.py", name, bad.forgetful, rebuild=rebuild)) == [("wrong", "STATE.mismatch")]


def test_a_frozen_draw_beside_a_state_is_found() -> None:
    def make(module: nn.Module) -> Callable[..., Any]:
        noise = torch.rand(3, 4)
        return lambda x: (module(x)[0], x + noise)

    assert set(codes(judged(CASES / "stateful.py", "Drawing", make))) == {("wrong", "RNG.frozen")}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_value_that_is_wrong_from_the_first_call_is_no_matter_of_the_state(name: str) -> None:
    assert codes(judged(CASES / "stateful.py", name, bad.wrong_values)) == [("wrong", "VALUE.mismatch")]


def test_a_state_that_a_call_before_verification_settled_is_a_state_all_the_same() -> None:
    """Remembered keeps the last input: once called with the example, further calls with it change nothing."""

    def make(module: nn.Module) -> Callable[..., Any]:
        module(*load(CASES / "stateful.py").module.example_inputs())
        return bad.forgetful(module)

    for name in ("Remembered", "Cache"):
        assert codes(judged(CASES / "stateful.py", name, make)) == [("wrong", "STATE.mismatch")]


def test_what_a_file_states_of_a_module_with_a_state_is_its_first_answer() -> None:
    """The module that is judged was called before: by the attempt's first call, at least."""
    case = load(CASES / "stateful.py")
    variant = case.case.variant("Number")
    module = case.build(variant, Workload())
    request = Request(inputs=case.inputs(variant, Workload()), device="cpu", directory=CASES)
    module(*request.inputs)
    verify(Subject(module, module, is_eager=True), case, variant, Workload(), request)
    assert codes(request) == []
