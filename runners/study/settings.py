"""How a study is run, apart from what it tries."""

from __future__ import annotations

from typing import Any

import msgspec

from runners.study.lane import Limits
from runners.study.rounds import Budget


class Settings(msgspec.Struct, kw_only=True):
    """How many lanes build at a time and how many may live, what a worker may use, how long to measure, the options
    of backends, how many cells are traced (None: all that are timed), and when to stop (`time.monotonic`)."""

    has_gpu: bool
    parallel: int
    limits: Limits
    budget: Budget
    options: dict[str, Any]
    lanes: int = 16
    traces: int | None = 0
    deadline: float | None = None
