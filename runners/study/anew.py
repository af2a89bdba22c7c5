"""Anew: whether what is drawn comes back when an artifact is loaded, or its module built, a second time.

An engine that seeds itself draws the same in every process: a fact of it, no fault. A draw that never changes is a
fault, and these facts say where it was made: one that a fresh load keeps lies in the artifact, one that a fresh
build changes was made while it was built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from runners.study import compare

LOAD_SECONDS = 0.5
"""An artifact that took longer to load is not loaded a second time."""

BUILD_SECONDS = 1.0
"""A module that took longer from capture to load is not built a second time."""

FROZEN_BUILD_SECONDS = 30.0
"""The same where the draw never changes."""

LOADED, BUILT = "fresh_load_repeats_the_draw", "rebuild_repeats_the_draw"

Load = Callable[[], Callable[..., Any]]


class Anew:
    """Further callables of one road, called with `arguments`. `reload` loads the same artifact, `rebuild` takes the
    module down the whole road; None where there is none. What took the road too long the first time, by the
    seconds given, is not done again."""

    def __init__(
        self,
        arguments: tuple[Any, ...],
        reload: Load | None,
        rebuild: Load | None,
        load_seconds: float,
        build_seconds: float,
    ) -> None:
        self.reload = reload if load_seconds <= LOAD_SECONDS else None
        self._arguments = arguments
        self._rebuild = rebuild
        self._build_seconds = build_seconds

    def facts(self, drawn: Collection[int]) -> dict[str, Any]:
        """Of a draw that changes from call to call: whether fresh loads, and if they do a fresh build, begin alike."""
        if not drawn or self.reload is None:
            return {}
        return self._repeated(self.reload, drawn, BUILD_SECONDS)

    def facts_of_frozen(self, call: Callable[..., Any], drawn: Collection[int]) -> dict[str, Any]:
        """Of outputs that `call` draws once and for all; nothing where only some of their elements are frozen."""
        once, again = self._outputs(call), self._outputs(call)
        frozen = [number for number in drawn if compare.identical(once[number], again[number])]
        return self._repeated(lambda: call, frozen, FROZEN_BUILD_SECONDS) if frozen else {}

    def _repeated(self, known: Load, drawn: Collection[int], most: float) -> dict[str, Any]:
        """A build is asked only where a load repeats: where that draws something else, so does a build."""
        facts: dict[str, Any] = {}
        rebuild = self._rebuild if self._build_seconds <= most else None
        try:
            first = self._outputs(known())
            for name, make in ((LOADED, self.reload), (BUILT, rebuild)):
                if make is not None and all(facts.values()):
                    anew = self._outputs(make())
                    facts[name] = all(compare.identical(first[number], anew[number]) for number in drawn)
        except Exception as error:  # it worked before: the verdict stands without it
            facts["anew_error"] = f"{type(error).__name__}: {error}"
        return facts

    def _outputs(self, call: Callable[..., Any]) -> list[Any]:
        return compare.leaves(compare.clone(call(*compare.clone(self._arguments))))


def words(facts: dict[str, Any]) -> str:
    """Where a frozen draw was made, as the end of a sentence; empty where nothing tells."""
    parts = []
    if LOADED in facts:
        kept = "the same: the draw is baked into the artifact" if facts[LOADED] else "something else"
        parts.append(f"; loaded anew, it draws {kept}")
    if BUILT in facts:
        made = "the same" if facts[BUILT] else "something else: the draw was made while it was built"
        parts.append(f"; built anew, it draws {made}")
    return "".join(parts)
