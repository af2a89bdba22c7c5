"""The device: floors, bandwidth, and what NVML says, or does not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.study import device
from runners.study.device import MIB, Gauge, Reading, copy_bandwidth, floor_ms, last_level_cache


class FakeNvmlError(Exception):
    pass


class FakeNvml:
    """A card that answers what it is given, and refuses the rest."""

    NVML_CLOCK_SM = 1
    NVMLError = FakeNvmlError

    def __init__(self, reasons: int | None = 0, pids: tuple[int, ...] = (), clock: int | None = 1410) -> None:
        self.reasons, self.pids, self.clock = reasons, pids, clock

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int:
        return self._answer(self.reasons)

    def nvmlDeviceGetClockInfo(self, handle: Any, which: int) -> int:
        return self._answer(self.clock)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def _answer(self, value: int | None) -> int:
        if value is None:
            raise FakeNvmlError("not supported")
        return value


def reading(card: FakeNvml, family: set[int] | None = None) -> Reading:
    return Gauge(card, "handle", lambda: family or {os.getpid()}).read()


def test_the_floor_is_bytes_over_bandwidth() -> None:
    assert floor_ms(864e9, 864e9) == 1000.0
    assert floor_ms(20_000, 2e10) == pytest.approx(0.001)


def test_a_copy_moves_at_a_plausible_rate() -> None:
    assert 1e8 < copy_bandwidth("cpu") < 1e13


def test_the_largest_cache_is_found(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "1024K", "32M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert last_level_cache(tmp_path) == 32 * MIB
    assert last_level_cache(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [(0x0, False), (0x1, False), (0x2, False), (0x4, True), (0x8, True), (0x20, True), (0x40, True), (0x81, True)],
)
def test_idle_and_chosen_clocks_are_no_throttling(reasons: int, throttled: bool) -> None:
    assert reading(FakeNvml(reasons)).throttled is throttled


def test_other_processes_are_those_that_are_not_the_study_s() -> None:
    me = os.getpid()
    assert reading(FakeNvml(pids=(me, 77, 78)), family={me, 77}).others == 1
    assert reading(FakeNvml(pids=(me,))).others == 0


def test_pids_of_another_namespace_tell_nothing() -> None:
    assert reading(FakeNvml(pids=(77,))).others is None


def test_a_card_that_does_not_answer_reads_as_unknown() -> None:
    assert reading(FakeNvml(reasons=None, clock=None)) == Reading(sm_mhz=None, throttled=False, others=None)
    assert Gauge().read() == Reading()


def test_without_nvml_there_are_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_nvml", lambda: None)
    assert device.gpu_facts() is None


@pytest.mark.gpu
def test_a_card_has_a_name_and_copies_faster_than_a_gigabyte_a_second() -> None:
    facts = device.gpu_facts()
    assert facts is not None
    assert facts["name"]
    assert copy_bandwidth("cuda") > 1e9
