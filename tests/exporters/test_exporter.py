"""The stopwatch over stages."""

from __future__ import annotations

import time

import pytest

from exporters.exporter import Stages


def test_time_aside_belongs_to_no_stage_even_when_it_ends_in_an_error() -> None:
    stages = Stages()
    stages.enter("build")

    def refused() -> None:
        time.sleep(0.2)
        raise RuntimeError

    with pytest.raises(RuntimeError), stages.aside():
        refused()
    time.sleep(0.01)
    stages.stop()
    assert 0.01 <= stages.seconds["build"] < 0.2
