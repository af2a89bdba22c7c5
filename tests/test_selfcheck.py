"""The self-check: its callables are what they claim to be, and it fails when the ruler does."""

from __future__ import annotations

import numpy as np
import pytest

from runners import selfcheck
from runners.selfcheck import Finding


def test_the_slowed_and_the_sleeping_callable_answer_as_the_plain_one() -> None:
    values = np.array([3.0, 1.0, 2.0], dtype=np.float32)
    assert selfcheck.plain(values).tolist() == [1.0, 3.0, 6.0]
    assert selfcheck.slower(values).tolist() == selfcheck.sleepy(values).tolist() == [1.0, 3.0, 6.0]


def test_a_kept_result_is_exposed() -> None:
    assert selfcheck.kept_result_is_exposed().holds


def test_inputs_differ_from_call_to_call_and_agree_between_processes() -> None:
    first, second = selfcheck.pool(), selfcheck.pool()
    assert all(np.array_equal(one[0], other[0]) for one, other in zip(first, second, strict=True))
    assert not np.array_equal(first[0][0], first[1][0])


class Idle:
    """In place of a worker process."""

    def __init__(self, call: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_one_proof_that_fails_fails_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], holds: bool, code: int
) -> None:
    monkeypatch.setattr(selfcheck, "Process", Idle)
    for name in ("same_is_a_tie", "sleep_is_marked", "other_stream_is_marked"):
        monkeypatch.setattr(selfcheck, name, lambda *_: Finding("as it must be", True))
    monkeypatch.setattr(selfcheck, "slower_is_found", lambda *_: Finding("found in 3 of 10", holds))
    assert selfcheck.main() == code
    assert "found in 3 of 10" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_ruler_holds_here() -> None:
    assert selfcheck.main() == 0
