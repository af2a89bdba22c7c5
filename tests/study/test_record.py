"""The record: valid at every moment, and nothing that was there is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import runners.study.record as records
from models.case import Workload
from runners.study.record import Cell, DamagedRecord, Environment, Reason, Record, StageOutcome, Timing

SCHEMA = json.loads((Path(records.__file__).parent / "compat.schema.json").read_text())
ENVIRONMENT = Environment(
    id="cpu-x",
    device="cpu",
    cpu="x, 2 cores",
    python="3.11.7",
    packages={"torch": "2.13.0"},
    when="2026-11-29T10:00:00+00:00",
)


def cell(**changes: Any) -> Cell:
    about: dict[str, Any] = {
        "case": "balanced_sampler",
        "variant": "topk",
        "kind": "static",
        "backend": "compile",
        "environment": "cpu-x",
        "workload": Workload(n=1000, k=100, noise="inside", seed=0),
        "verdict": "accepted",
        "stages": {"capture": StageOutcome("ok", 0.5), "time": StageOutcome("not_reached")},
        "timing": Timing(median_ms=1.0, iqr_ms=0.1, samples_ms=[1.0, 1.1], method="a clock"),
    }
    return Cell(**(about | changes))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    record = Record(environments=[ENVIRONMENT], cells=[cell(), cell(variant="nonzero", kind="variable")])
    records.write(record, tmp_path / "compat.json")
    assert records.read(tmp_path / "compat.json") == record


def test_the_file_fits_the_schema(tmp_path: Path) -> None:
    refused = cell(verdict="rejected", stage="build", reason=Reason("DDS.guard", "words", "a.py:3"), timing=None)
    records.write(Record(environments=[ENVIRONMENT], cells=[cell(), refused]), tmp_path / "compat.json")
    jsonschema.validate(json.loads((tmp_path / "compat.json").read_text()), SCHEMA)


def test_an_accepted_cell_with_a_reason_does_not_fit_the_schema(tmp_path: Path) -> None:
    records.write(
        Record(environments=[ENVIRONMENT], cells=[cell(reason=Reason("DDS.guard", "x"))]), tmp_path / "c.json"
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads((tmp_path / "c.json").read_text()), SCHEMA)


def test_a_failed_write_leaves_the_old_record_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "compat.json"
    records.write(Record(environments=[ENVIRONMENT], cells=[cell()]), path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        records.write(Record(environments=[ENVIRONMENT], cells=[]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 2}', b"\xff\xfe", b'{"schema": 1, "cells": [{}]}'])
def test_a_damaged_record_is_told_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "compat.json"
    path.write_bytes(content)
    with pytest.raises(DamagedRecord, match=r"compat\.json is not a compat\.json of schema 1") as told:
        records.read(path)
    assert "\n" not in str(told.value)
    assert path.read_bytes() == content


@given(text=st.text(max_size=200))
def test_any_compiler_text_survives(text: str) -> None:
    reason = Reason("UNCLASSIFIED", text)
    assert msgspec.json.decode(msgspec.json.encode(reason), type=Reason) == reason


def test_each_cell_stands_on_its_own_line(tmp_path: Path) -> None:
    records.write(Record(environments=[ENVIRONMENT], cells=[cell(), cell(variant="nonzero")]), tmp_path / "compat.json")
    lines = (tmp_path / "compat.json").read_text().splitlines()
    assert sum('"verdict":"accepted"' in line for line in lines) == 2
    assert sum(line.count('"verdict"') > 1 for line in lines) == 0
