"""Where the wall time of a study goes: to compilers and the variants they run, or to the study itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runners.study.attempt import Outcome


class Stopwatch:
    """Adds up the seconds spent inside the callables that it is put over."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def over(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


class Ledger:
    """The books of one study.

    Theirs is the time inside a compiler, its import, a called variant, or a sleep that a rule demands. Ours is
    the rest: starting workers, making inputs, comparing, statistics, messages, writing. Of a stretch in which
    lanes work side by side, ours is the share that it is of their time taken together.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._side_by_side = 0.0
        self._lanes, self._of_lanes_theirs = 0.0, 0.0
        self._theirs = 0.0
        self._all_stages, self._verify = 0.0, 0.0

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """A stretch in which at least one lane is at an attempt."""
        began = time.monotonic()
        yield
        self._side_by_side += time.monotonic() - began

    def attempt(self, outcome: Outcome, seconds: float) -> None:
        """An attempt that kept its lane for so many seconds."""
        stages = {name: stage.seconds or 0.0 for name, stage in outcome.stages.items()}
        verify = stages.pop("verify", 0.0)
        called = outcome.facts.get("verification", {}).get("called_seconds", 0.0)
        theirs = sum(stages.values()) + called + outcome.facts.get("import_seconds", 0.0)
        self._lanes += seconds
        self._of_lanes_theirs += min(theirs, seconds)
        self._all_stages += sum(stages.values()) + verify
        self._verify += verify

    def theirs(self, seconds: float) -> None:
        """Seconds in which one lane alone was at theirs."""
        self._theirs += seconds

    @property
    def overhead(self) -> float:
        """Our share of the wall time."""
        wall = max(time.monotonic() - self._began, 1e-9)
        return 1 - (self._side_by_side * self._of_lanes_theirs / max(self._lanes, 1e-9) + self._theirs) / wall

    @property
    def verification(self) -> float:
        """The share of stage `verify` in the time of all stages."""
        return self._verify / max(self._all_stages, 1e-9)
