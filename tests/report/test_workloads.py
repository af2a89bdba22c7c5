"""Workloads in words."""

from __future__ import annotations

from models.case import Workload
from runners.report.workloads import at, label, place, varying
from tests.report import plain


def workload(n: int | None, batch: int | None = None, noise: str | None = "inside") -> Workload:
    return Workload(n=n, k=n and n // 10, batch=batch, dim=16, noise=noise)  # type: ignore[arg-type]


SMALL, MIDDLE, LARGE = workload(1_000), workload(10_000), workload(100_000)
BATCHED, GIVEN = workload(1_000, 32), workload(1_000, noise="input")


def test_only_n_and_what_differs_is_worth_naming() -> None:
    assert varying([SMALL, MIDDLE]) == ("n",)
    assert varying([SMALL, BATCHED, GIVEN]) == ("n", "batch", "noise")
    assert varying([Workload(), Workload()]) == ()


def test_labels() -> None:
    assert plain(label(MIDDLE, ("n", "batch"))) == "N = 10 000"
    assert plain(label(BATCHED, ("n", "batch"))) == "N = 1 000, batch 32"
    assert plain(label(SMALL, ("batch",), absent=True)) == "unbatched"
    assert label(Workload(), ()) == "its own inputs"


def test_place_says_where_it_turns() -> None:
    assert plain(place([LARGE], [SMALL, MIDDLE, BATCHED])) == "from N = 100 000"
    assert plain(place([SMALL, BATCHED], [MIDDLE, LARGE])) == "to N = 1 000"
    assert plain(place([MIDDLE], [SMALL, LARGE])) == "at N = 10 000"


def test_place_names_the_dimension_that_tells_them_apart() -> None:
    assert plain(place([BATCHED], [SMALL, LARGE])) == "batch 32"
    assert place([SMALL, LARGE], [BATCHED]) == "unbatched"
    assert place([GIVEN], [SMALL, BATCHED]) == "noise as input"


def test_place_lists_what_no_dimension_tells_apart() -> None:
    assert plain(place([BATCHED, LARGE], [SMALL, MIDDLE, workload(100_000, 32)])) == (
        "at N = 100 000; N = 1 000, batch 32"
    )


def test_no_place_when_it_is_everywhere() -> None:
    assert place([SMALL, LARGE], []) == ""


def test_a_place_follows_its_words() -> None:
    assert [at("rejected", where) for where in ("", "from N = 1 000", "noise inside")] == [
        "rejected", "rejected from N = 1 000", "rejected, noise inside",
    ]  # fmt: skip
