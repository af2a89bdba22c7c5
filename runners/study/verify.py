"""Verification: what makes `accepted` mean checked. Called once a cell, after its first call succeeded.

Eager is judged against the case's contract (`faults`, `statistics`, `EXPECTED…`, `random`, `distinct`); every
other backend against eager of the same variant, on the example, on inputs unlike it, over many draws where
eager draws, and by what its calls leave behind in inputs and earlier outputs. Faults become findings of the
request, what was covered becomes its fact `verification`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exporters.exporter import Finding, Request
from models.case import CaseModule, Fault, Input, Variant, Workload
from runners.study import anew, compare, draws, hands, reference, shapes
from runners.study.anew import Anew, Load
from runners.study.compare import Tally
from runners.study.expected import expectation_fault
from runners.study.inputs import LARGE, size_of, to_device
from runners.study.ledger import Stopwatch
from runners.study.reference import Reference

if TYPE_CHECKING:
    from torch import nn

DRAWING_SECONDS = 0.1
"""For the calls of one side, on the example; further inputs get a quarter of it each."""

STATISTICS_SECONDS = 0.1
"""For the calls of one side on one input of a case's `statistics`."""

FURTHER_SECONDS = 10.0
"""After this long no further input is begun; that some were left out is recorded."""

STEPS = 4
"""Calls on the example of a module that keeps a state: a state that a backend lost shows in the second."""

HELD = 2
"""Inputs of a sized case whose arguments are kept for more than one look; of large ones, the example alone."""

SEED = 20_261
"""Of torch's generator during verification, so that what draws from it draws the same in every study."""


@dataclass
class Subject:
    """What is judged, and against which module.

    `call` takes the inputs of `module` and returns its outputs, nested as the module's or flat. `module` is
    the very module that was compiled; it runs here as eager, on the request's device. `reload` loads the same
    artifact a second time, `rebuild` takes the module down the road a second time; None where there is no
    artifact. `other_shapes`: the road takes other shapes than the example's.
    """

    call: Callable[..., Any]
    module: nn.Module
    is_eager: bool = False
    other_shapes: bool = False
    reload: Load | None = None
    rebuild: Load | None = None


class Broke(Exception):
    """The backend (or eager, if it is the subject) raised on a further input. The cell is `rejected` at
    stage `run`; the reason is that of `error`, its text preceded by `at <input_name>: `."""

    def __init__(self, input_name: str, error: Exception) -> None:
        super().__init__(f"at {input_name}: {type(error).__name__}: {error}")
        self.input_name = input_name
        self.error = error


def verify(subject: Subject, case: CaseModule, variant: Variant, workload: Workload, request: Request) -> None:
    """Judge `subject` on `request.inputs` and beyond; report into `request.findings` and `request.facts`.

    Raises Broke when it refuses a further input of the example's shapes, or of other shapes on a road that
    takes them. Runs in the caller's gradient mode; torch's generators are as before afterwards.
    """
    import torch

    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if request.device == "cuda" else []):
        torch.manual_seed(SEED)
        verification = _Verification(subject, case, variant, workload, request)
        try:
            verification.judge()
        finally:
            request.facts["verification"] = verification.facts()


@dataclass
class _Verification:
    subject: Subject
    case: CaseModule
    variant: Variant
    workload: Workload
    request: Request
    tally: Tally = field(default_factory=Tally)
    notes: dict[str, Any] = field(default_factory=dict)
    drawn: dict[str, frozenset[int]] = field(default_factory=dict)
    drew: dict[str, bool] = field(default_factory=dict)
    judged: dict[str, shapes.Kind] = field(default_factory=dict)
    held: list[Input] = field(default_factory=list)

    def __post_init__(self) -> None:
        subject = self.subject
        self.watch = Stopwatch()
        subject.call = self.watch.over(subject.call)
        self.example = Input("the example", self.request.inputs)
        self.stateful = reference.keeps_state(self._new_module(), self.example.arguments)
        if self.stateful:
            self.notes["keeps_state"] = True
        self.dynamic = shapes.dynamic(self.case, self.variant)
        noise_given = (
            self.workload.noise == "input"
            if self.case.case.sizes
            else (len(self.example.arguments) > len(self.case.module.example_inputs()))
        )
        self.moved = frozenset[int]()
        if not subject.is_eager:
            self.moved = compare.moved(reference.copied(subject.module), self.example.arguments)
        self._align()
        spent = self.request.stages.seconds
        self.anew = Anew(
            self.example.arguments,
            subject.reload and self.watch.over(subject.reload),
            subject.rebuild and self.watch.over(subject.rebuild),
            load_seconds=float(self.request.facts.get("load_seconds", 0.0)),
            build_seconds=sum(spent.get(stage, 0.0) for stage in ("capture", "convert", "build")),
        )
        self.declared_random = bool(self.case.header.get("random")) and not noise_given

    def _align(self) -> None:
        """Have eager and the backend in the same state, from which each call takes both. A module without one has
        no need of it: there eager itself, as the subject, is its own reference."""
        subject = self.subject
        anew = subject.rebuild if self.stateful else None
        self.call = self.watch.over(anew()) if anew else subject.call
        self.own = subject.module if subject.is_eager and not self.stateful else reference.copied(subject.module)
        self.eager = self.watch.over(self.own)
        self.steps = 0

    def judge(self) -> None:
        """Inputs of the example's shapes, hands, draws; other shapes last: refusing one can break an engine."""
        others = []
        began = time.perf_counter()
        inputs = self._inputs()
        for given in inputs:
            if shapes.compared(self.example.arguments, given.arguments, None) == "same":
                self._judge_call(given, self.call)
            else:
                others.append(given)
            if self._is_wrong():
                return
            if time.perf_counter() - began > FURTHER_SECONDS:
                if size_of(given.arguments) >= LARGE or next(inputs, None):  # a large one takes long to make
                    self.notes["inputs_left_out_for_time"] = True
                break
        if not self.subject.is_eager:
            self._judge_hands()
        self._judge_draws()
        if others and not self._is_wrong():
            self._judge_others(others)
        if not self._is_wrong():
            self.notes |= self.anew.facts(self.drawn[self.example.name])
            self._judge_information()

    def _judge_others(self, others: list[Input]) -> None:
        """Inputs of other shapes, on a second load of the artifact where there is one."""
        if self.stateful:
            self._align()
        reload = None if self.stateful else self.anew.reload
        call = self.watch.over(reload()) if reload else self.call
        for given in others:
            self._judge_call(given, call)
        judged_already = self.declared_random and self.case.optional("statistics")
        for given in self.held:
            other = self.judged[given.name] != "same"
            if other and self._may_draw(given) and not judged_already and not self._is_wrong():
                self._judge_drawing(given, DRAWING_SECONDS / 4, call)
        self._judge_shapes()

    def facts(self) -> dict[str, Any]:
        drawn = frozenset[int]().union(*self.drawn.values())
        return {
            "inputs": list(self.judged),
            "random_outputs": sorted(self.drawn.get(self.example.name, ())),
            **self.tally.facts(drawn),
            **self.notes,
            "called_seconds": round(self.watch.seconds, 6),
        }

    def _inputs(self) -> Iterator[Input]:
        """The example, often enough to see a state move; then the case's own further inputs, its edges first, more like
        the example, and other sizes. Time may end them, and an edge shows more than another seed."""
        for _ in range(STEPS if self.stateful else 1):
            yield self.example
        yield from self.case.more_inputs(self.variant, self.workload)
        if self.case.case.sizes:
            for seed in (1, 2):
                yield Input(f"seed {seed}", self.case.inputs(self.variant, self.workload, seed))
        if self.stateful:  # what those left behind may show here alone
            yield self.example
        if self.subject.other_shapes and not self.subject.is_eager:
            yield from shapes.resized(self.case, self.variant, self.workload, self.example.arguments)

    def _judge_call(self, given: Input, call: Callable[..., Any]) -> None:
        """One call on one input: refusals, outputs, inputs left behind, the contract."""
        given = Input(given.name, to_device(given.arguments, self.request.device))
        known = self._reference(given)
        if known is None:
            return
        handed = compare.clone(given.arguments)
        try:
            actual = compare.clone(call(*handed))
        except Exception as error:
            self._refused(given, error)
            return
        self.judged[given.name] = shapes.compared(self.example.arguments, given.arguments, self.dynamic)
        self.drawn[given.name], self.drew[given.name] = known.drawn, known.drew
        if self._is_held(given):
            self.held.append(given)
        self._judge_inputs(given, handed, known.left)
        fault = self._difference(given, known, actual)
        if fault and fault.code == "VALUE.mismatch":
            if self.steps:
                text = f"in call {self.steps + 1} from the same state as eager: {fault.text}"
                fault = Fault("STATE.mismatch", text)
            elif known.drew and not self.stateful and self._is_chance(given, known, call):
                fault = None
        if fault is None:
            fault = self._contract_fault(given, actual, known.outputs)
        if fault is None and self.subject.is_eager and given.name == self.example.name:
            first = self._new_module()(*compare.clone(given.arguments)) if self.stateful else actual
            fault = expectation_fault(self.case, self.variant, first)
        if fault and self.judged[given.name] == "other" and not self.subject.other_shapes:
            self._unchecked(fault, given)
        elif fault:
            self._wrong(fault, given)
        if self.stateful:
            self.eager(*compare.clone(given.arguments))
            self.steps += 1

    def _unchecked(self, fault: Fault, given: Input) -> None:
        """A road that was built for the example's shapes alone answers others otherwise than eager. Nobody asked it
        to take them, but it did not refuse either."""
        if not any(finding.code == "SHAPE.unchecked" for finding in self.request.findings):
            text = f"at {given.name}, of other shapes or numbers than it was built for: {fault.text}"
            self._add(Finding("partial", "SHAPE.unchecked", text))

    def _new_module(self) -> nn.Module:
        """A module that was never called: what calls change once and for all, and what a case file states of a
        first answer, shows in such a one alone."""
        return self.case.build(self.variant, self.workload).to(self.request.device)

    def _is_held(self, given: Input) -> bool:
        if any(given.name == other.name for other in self.held):
            return False
        if self.case.case.sizes is None or not self.held:
            return True
        return len(self.held) < HELD and size_of(given.arguments) < LARGE

    def _reference(self, given: Input) -> Reference | None:
        """None where eager itself raises on a further input, which is no matter of the backend's."""
        try:
            eager = self.watch.over(reference.afresh(self.own)) if self.stateful else self.eager
            return reference.run(eager, given.arguments)
        except Exception as error:
            if self.subject.is_eager or given.name == self.example.name:
                raise Broke(given.name, error) from error
            self.notes.setdefault("eager_raises", []).append(given.name)
            return None

    def _difference(self, given: Input, known: Reference, actual: Any) -> Fault | None:
        """From eager, and, where that is too large, from eager in float64, which is run for this alone."""
        tally = copy.deepcopy(self.tally)
        fault = self._compare(given, known, actual, tally)
        if fault and fault.code == "VALUE.mismatch" and not self.subject.is_eager and not known.drew:
            precise = reference.precise(self.own, given.arguments)
            if precise is not None:
                tally = copy.deepcopy(self.tally)
                fault = self._compare(given, known, actual, tally, precise)
        self.tally = tally
        return fault

    def _compare(self, given: Input, known: Reference, actual: Any, tally: Tally, precise: Any = None) -> Fault | None:
        return compare.compare(
            known.outputs, actual, given.arguments, tally, precise=precise, exact=self.moved, skip=known.drawn,
        )  # fmt: skip

    def _is_chance(self, given: Input, known: Reference, call: Callable[..., Any]) -> bool:
        """Whether a difference comes as often from eager's own draws: some change an output only rarely."""

        def differs(one: Callable[..., Any]) -> bool:
            outputs = compare.clone(one(*compare.clone(given.arguments)))
            return self._compare(given, known, outputs, Tally()) is not None

        theirs = sum(differs(call) for _ in range(draws.LEAST))
        own = sum(differs(self.eager) for _ in range(draws.LEAST))
        return not draws.more_often(theirs, own, draws.LEAST)

    def _refused(self, given: Input, error: Exception) -> None:
        """A refusal of the example's shapes, or of others where the road takes any, breaks the cell."""
        kind = shapes.compared(self.example.arguments, given.arguments, self.dynamic)
        if kind == "other" and self.case.case.sizes:
            text = f"at {given.name}, after N = {self.workload.n}: {type(error).__name__}: {error}"
            self._add(Finding("partial", "SHAPE.refused", text))
            return
        if kind == "same" or (kind == "other" and self.subject.other_shapes and self.dynamic is None):
            raise Broke(given.name, error) from error
        self.notes.setdefault(f"refused_{kind}_shapes", {})[given.name] = f"{type(error).__name__}: {error}"

    def _judge_shapes(self) -> None:
        """Dimensions asked dynamic: constant where every other size was refused, and where none was, not constant,
        whatever an exporter found in its graph."""
        refused = self.notes.get("refused_dynamic_shapes")
        if not self.subject.other_shapes:
            return
        taken = [name for name, kind in self.judged.items() if kind == "dynamic"]
        if not refused:
            if len(taken) > 1:
                self._take_back("SHAPE.specialised")
            return
        name, words = next(iter(refused.items()))
        if taken:
            text = f"refused: {', '.join(refused)}; taken: {', '.join(taken)}; {words}"
            self._add(Finding("partial", "SHAPE.refused", text))
        else:
            text = f"no other size than the example's is taken; at {name}: {words}"
            self._add(Finding("partial", "SHAPE.specialised", text))

    def _judge_information(self) -> None:
        """A comparison with nothing but zeros, NaN or no elements cannot fail, so it is no evidence."""
        drawn = frozenset[int]().union(*self.drawn.values())
        written = self.notes.get("writes_into_its_inputs")
        if self.subject.is_eager or drawn or written or self.tally.is_informative:
            return
        text = (
            f"eager gave nothing but zeros, NaN or no elements at {', '.join(self.judged)}: "
            "a backend that lost the answer would not be found; more_inputs() can hold an input with another one"
        )
        self._add(Finding("partial", "VALUE.uninformative", text))

    def _judge_inputs(self, given: Input, handed: Any, left_by_eager: Any) -> None:
        """A call may leave its inputs as they were, or as eager leaves them, if the case says that it writes."""
        changed = not compare.identical(handed, given.arguments)
        if changed and self.subject.is_eager and not self.case.header.get("mutates_input"):
            self._wrong(
                Fault("INPUT.changed", "the call writes into its inputs, and CASE does not say 'mutates_input': True"),
                given,
            )
        elif changed and not compare.identical(handed, left_by_eager):
            self._wrong(Fault("INPUT.changed", "the inputs are not after the call what eager leaves of them"), given)
        elif changed:
            self.notes["writes_into_its_inputs"] = True
        elif not compare.identical(left_by_eager, given.arguments):
            self.notes["inputs_left_untouched"] = "eager writes into them, this backend does not"

    def _contract_fault(self, given: Input, actual: Any, expected: Any) -> Fault | None:
        """The first breach of the case's contract which eager's own outputs do not show."""
        faults = self.case.optional("faults")
        if faults is None:
            return None
        found: list[Fault] = faults(given.arguments, tuple(compare.leaves(actual)), self.workload)
        if not found or self.subject.is_eager:
            return found[0] if found else None
        known = {fault.code for fault in faults(given.arguments, expected, self.workload)}
        return next((fault for fault in found if fault.code not in known), None)

    def _judge_hands(self) -> None:
        arguments = [given.arguments for given in self.held if self.judged[given.name] == "same"][:2]
        changing = self.drawn[self.example.name]
        if self.stateful:
            changing = changing.union(self.tally.informative)
        for finding in hands.judge(self.call, self.eager, arguments, changing):
            self._add(finding)

    def _judge_draws(self) -> None:
        statistics = self.case.optional("statistics")
        if statistics and self.declared_random:
            eager = None if self.subject.is_eager else self.eager
            faults, facts = statistics(self.subject.call, eager, self.workload, self.request.device, STATISTICS_SECONDS)
            self.notes["statistics"] = facts
            for fault in faults:
                self._wrong(fault)
            return
        for given in self.held:
            on_example = given.name == self.example.name
            if self._may_draw(given) or (self.subject.is_eager and self.declared_random and on_example):
                self._judge_drawing(given, DRAWING_SECONDS if on_example else DRAWING_SECONDS / 4)

    def _may_draw(self, given: Input) -> bool:
        """Outputs that differed, or draws that changed none in the few runs of eager so far: many will tell."""
        return bool(self.drawn[given.name]) or self.drew[given.name]

    def _judge_drawing(self, given: Input, seconds: float, call: Callable[..., Any] | None = None) -> None:
        """Many calls on one input, of eager and of the backend; `call` stands for it if it was loaded anew."""
        if self.stateful:
            self._align()
        call = call or self.call
        distinct = bool(self.case.header.get("distinct"))
        own = draws.collect(lambda: self.eager(*compare.clone(given.arguments)), seconds)
        if self.declared_random and given.name == self.example.name and not draws.changing(own):
            self._never_changes(given, len(own))
        if self.subject.is_eager:
            if distinct and (repeats := draws.repeated(own)):
                self._wrong(Fault("RNG.repeats", f"{repeats} of {len(own)} draws hold an index twice"), given)
            return
        theirs = draws.collect(lambda: call(*compare.clone(given.arguments)), seconds, len(own))
        faults, facts = draws.judge(own, theirs, distinct)
        self.notes.setdefault("draws", {})[given.name] = facts
        for fault in faults:
            self._wrong(fault, given)

    def _never_changes(self, given: Input, calls: int) -> None:
        """Eager drew and it did not show: it may show seldom, which is no fault, but nothing was compared either."""
        if self.drew[given.name]:
            text = (
                f"at {given.name}: {calls} calls of eager draw, and none changes an output: a lost draw would not show"
            )
            self._add(Finding("partial", "VALUE.uninformative", text))
        elif self.subject.is_eager:
            self._wrong(Fault("RNG.frozen", f"{calls} calls drew the same"), given)

    def _wrong(self, fault: Fault, given: Input | None = None) -> None:
        text = f"at {given.name}: {fault.text}" if given else fault.text
        if fault.code == "RNG.frozen" and not self.subject.is_eager and not self._is_wrong():
            found = self.anew.facts_of_frozen(self.subject.call, self.drawn[self.example.name])
            self.notes |= found
            text += anew.words(found)
        self._add(Finding("wrong", fault.code, text))

    def _take_back(self, code: str) -> None:
        """Make a note of the findings of this code that calls have refuted."""
        kept = [finding for finding in self.request.findings if finding.code != code]
        if refuted := [finding.text for finding in self.request.findings if finding.code == code]:
            self.notes["refuted"] = list(dict.fromkeys(refuted))
            self.request.findings[:] = kept

    def _add(self, finding: Finding) -> None:
        self.request.findings.append(finding)

    def _is_wrong(self) -> bool:
        return any(finding.verdict == "wrong" for finding in self.request.findings)
