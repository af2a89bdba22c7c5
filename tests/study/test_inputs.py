"""Large inputs are made once, mapped by everyone, and nobody's writes reach the others."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

from models.case import CATALOGUE, CaseModule, load
from runners.study import inputs as kept
from runners.study.compare import identical


@pytest.fixture
def sampler() -> CaseModule:
    return load(CATALOGUE / "balanced_sampler.py")


def made(
    case: CaseModule, folder: Path | None, noise: str = "inside", variant: str = "topk"
) -> tuple[torch.Tensor, ...]:
    assert case.case.sizes is not None
    workload = case.case.sizes.workload(1000, None, noise)
    return kept.inputs_of(case, case.case.variant(variant), workload, 3, folder)


def test_large_inputs_are_kept_once_and_a_write_stays_with_its_writer(
    sampler: CaseModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "LARGE", 1)
    fresh = made(sampler, None)
    first, second = made(sampler, tmp_path), made(sampler, tmp_path, variant="partition")
    assert identical(first, fresh)
    first[0].zero_()
    assert identical(second, fresh)
    assert identical(made(sampler, tmp_path), fresh)
    assert len(list(tmp_path.iterdir())) == 1


def test_noise_belongs_to_its_variant(sampler: CaseModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGE", 1)
    for variant in ("topk", "partition"):
        wanted = made(sampler, None, "input", variant)
        assert identical(made(sampler, tmp_path, "input", variant), wanted)
        assert identical(made(sampler, tmp_path, "input", variant), wanted)


def test_small_inputs_are_not_kept_and_a_full_disk_is_no_matter(
    sampler: CaseModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(sampler, tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(kept, "LARGE", 1)

    def full(dir: Path) -> tuple[int, str]:
        return os.open("/dev/full", os.O_WRONLY), str(dir / "aside")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert identical(made(sampler, tmp_path), made(sampler, None))
    assert not list(tmp_path.iterdir())
