"""Markers: one a backend, by its name; `gpu` for what needs a card; `slow` for what a person runs on demand.

A test that bears the marker of a backend whose packages are not here is skipped, with the reason.
"""

from __future__ import annotations

import pytest

from runners.backends import BACKENDS
from runners.study.device import gpu_facts
from runners.study.listing import availability


def pytest_configure(config: pytest.Config) -> None:
    for name in BACKENDS:
        config.addinivalue_line("markers", f"{name}: concerns the backend {name}")
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")
    config.addinivalue_line("markers", "slow: takes long; run on demand with -m slow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and gpu_facts() is None:
        pytest.skip("needs an NVIDIA GPU; none is here")
    for name in BACKENDS.keys() & {marker.name for marker in item.iter_markers()}:
        here, provide = availability(BACKENDS[name], has_gpu=True)
        if here != "yes":
            pytest.skip(f"{name} is not here ({here}); to provide it: {provide}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # torchax registers its device for the whole process, and Dynamo cannot compile afterwards.
    items.sort(key=lambda item: item.get_closest_marker("xla") is not None)
