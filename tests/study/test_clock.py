"""The clock: what is inside a block and what is not. The CUDA clock is driven by a stand-in for torch."""

from __future__ import annotations

import gc
import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runners.study.clock import Block, Clock, CpuClock, CudaClock, clock_for
from runners.study.device import Gauge, Reading

POOL = [("a",), ("b",), ("c",)]


class FakeCuda:
    """A card with one queue and a time of its own, in microseconds: `host` is the host's, `free` the moment at
    which the queue will be empty. Work is queued by `launch` and done in order."""

    def __init__(self) -> None:
        self.host = 0
        self.free = 0
        self.launched: list[tuple[str, int]] = []
        cache = SimpleNamespace(L2_cache_size=3 << 20)
        self.cuda = SimpleNamespace(
            Event=lambda enable_timing: FakeEvent(self),
            current_stream=lambda device: "the stream",
            synchronize=lambda device: setattr(self, "host", max(self.host, self.free)),
            get_device_properties=lambda device: cache,
            reset_peak_memory_stats=lambda device: None,
            memory_allocated=lambda device: 1024,
            max_memory_allocated=lambda device: 4096,
        )
        self.uint8 = "uint8"

    def launch(self, name: str, duration: int, host_cost: int = 1) -> None:
        self.host += host_cost
        self.free = max(self.free, self.host) + duration
        self.launched.append((name, duration))

    def empty(self, size: int, dtype: Any, device: str) -> Any:
        self.flush_bytes = size
        return SimpleNamespace(zero_=lambda: self.launch("flush", 1000))

    def nanoseconds(self) -> int:
        return self.host * 1000


class FakeEvent:
    def __init__(self, card: FakeCuda) -> None:
        self.card = card

    def record(self, stream: str) -> None:
        assert stream == "the stream"
        self.at = max(self.card.free, self.card.host)

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.at - self.at) / 1000


class FakeGauge(Gauge):
    def read(self) -> Reading:
        return Reading(sm_mhz=1980, throttled=True, others=2)


def cuda_clock(card: FakeCuda) -> CudaClock:
    return CudaClock(card, "cuda", FakeGauge(), card.nanoseconds)


@pytest.mark.parametrize("calls", [1, 4])
def test_inputs_rotate_from_the_start_that_was_asked_for(calls: int) -> None:
    seen: list[str] = []
    CpuClock().block(seen.append, POOL, calls, start=5)
    assert seen[-calls:] == ["c", "a", "b", "c"][:calls]


def test_the_waking_call_is_outside_the_block() -> None:
    took = iter([0.05, 0, 0])
    block = CpuClock().block(lambda: time.sleep(next(took)), [()], calls=2)
    assert block.total_ms < 50


def test_a_result_is_dropped_before_the_next_call() -> None:
    alive: set[int] = set()
    most = 0

    class Result:
        def __init__(self) -> None:
            alive.add(id(self))

        def __del__(self) -> None:
            alive.discard(id(self))

    def call() -> Result:
        nonlocal most
        result = Result()
        most = max(most, len(alive))
        return result

    CpuClock().block(call, [()], calls=5)
    assert most == 1


def test_garbage_is_not_collected_within_a_block_and_is_again_after_it() -> None:
    states: list[bool] = []
    CpuClock().block(lambda: states.append(gc.isenabled()), [()], calls=2)
    assert states == [False] * 3
    assert gc.isenabled()

    def fails() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        CpuClock().block(fails, [()], calls=1)
    assert gc.isenabled()


def test_sleep_is_wall_time_without_processor_time() -> None:
    block = CpuClock().block(lambda: time.sleep(0.02), [()], calls=1)
    assert block.cpu_ms is not None
    assert block.total_ms >= 20
    assert block.cpu_ms < block.total_ms / 2


def test_the_estimate_excludes_the_first_call_and_warms_every_entry() -> None:
    first = {entry[0]: True for entry in POOL}

    def call(entry: str) -> None:
        if first[entry]:  # compiles once per entry
            first[entry] = False
            time.sleep(0.05)

    assert CpuClock().estimate(call, POOL) < 10
    assert not any(first.values())


def test_blocks_travel_as_json() -> None:
    block = Block(3, 1.5, device_ms=1.0, throttled=True)
    assert msgspec.json.decode(msgspec.json.encode(block), type=Block) == block


def test_the_cpu_has_one_clock() -> None:
    clock: Clock = clock_for("cpu")
    assert clock is clock_for("cpu")
    assert "monotonic" in clock.method


def test_cuda_events_and_host_time_of_queued_work() -> None:
    card = FakeCuda()
    block = cuda_clock(card).block(lambda: card.launch("kernel", 100), [()], calls=10)
    # The first launch reaches the card after 1 µs on the host, then ten kernels follow one another.
    assert block.total_ms == pytest.approx(1.001)
    assert block.device_ms == pytest.approx(1.001)


def test_cuda_a_stall_of_the_host_is_inside_the_block() -> None:
    card = FakeCuda()

    def call() -> None:
        card.launch("kernel", 100)
        card.host += 5000

    block = cuda_clock(card).block(call, [()], calls=1)
    assert block.total_ms == pytest.approx(5.001)
    assert block.device_ms == pytest.approx(5.001)  # the closing event is queued after the stall


def test_cuda_cold_calls_clear_the_cache_outside_the_clock() -> None:
    card = FakeCuda()
    block = cuda_clock(card).block(lambda: card.launch("kernel", 100), [()], calls=10)
    assert card.flush_bytes == 2 * (3 << 20)
    assert block.hot_ms == block.cold_ms == pytest.approx(0.101)
    names = [name for name, _ in card.launched]
    assert names[:11] == ["kernel"] * 11  # a waking call, then the block: nothing is cleared within it
    assert names[-8:] == ["flush", "kernel"] * 4


def test_cuda_state_of_the_card_is_read_with_the_block() -> None:
    card = FakeCuda()
    block = cuda_clock(card).block(lambda: card.launch("kernel", 100), [()], calls=1)
    assert (block.sm_mhz, block.throttled, block.others, block.peak_bytes) == (1980, True, 2, 3072)


def test_cuda_estimate() -> None:
    card = FakeCuda()
    durations = iter([50_000])

    def call() -> None:
        card.launch("kernel", next(durations, 100))

    assert cuda_clock(card).estimate(call, [()]) == pytest.approx(0.1, rel=0.05)


@pytest.mark.gpu
def test_a_sleeping_host_shows_on_a_card() -> None:
    import torch

    def call(x: Any) -> Any:
        time.sleep(0.005)
        return x + 1

    block = clock_for("cuda").block(call, [(torch.ones(8, device="cuda"),)], calls=4)
    assert block.total_ms >= 20


@pytest.mark.gpu
def test_work_on_another_stream_does_not_escape_the_host_clock() -> None:
    import torch

    side = torch.cuda.Stream()
    x = torch.rand(4096, 4096, device="cuda")

    def call(x: Any) -> Any:
        with torch.cuda.stream(side):
            return [x @ x for _ in range(20)]

    block = clock_for("cuda").block(call, [(x,)], calls=2)
    assert block.device_ms is not None
    assert block.total_ms > 2 * block.device_ms


@pytest.mark.gpu
def test_cold_is_slower_than_hot_for_what_fits_the_cache() -> None:
    import torch

    x = torch.rand(1 << 21, device="cuda")
    clock = clock_for("cuda")
    clock.estimate(torch.sum, [(x,)])
    blocks = [clock.block(torch.sum, [(x,)], calls=50) for _ in range(5)]
    assert sorted(b.cold_ms or 0 for b in blocks)[2] > sorted(b.hot_ms or 0 for b in blocks)[2]
