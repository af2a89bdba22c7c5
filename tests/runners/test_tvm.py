"""TVM for real, on the CPU."""

from __future__ import annotations

import pytest
import torch

from tests.runners.engines import Drawn, PlainNonzero, go

pytestmark = pytest.mark.tvm


@pytest.mark.parametrize(
    ("module", "name"), [(PlainNonzero(), "nonzero.default"), (Drawn(), "rand.default")], ids=["nonzero", "rand"]
)
def test_operators_without_an_importer_are_named(module, name, tmp_path):
    with pytest.raises(AssertionError, match=f"Unsupported function types.*{name}"):
        go("tvm", module, (torch.rand(9),), tmp_path)
