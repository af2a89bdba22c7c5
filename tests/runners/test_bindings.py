"""The check of calls against real bindings must itself notice a wrong call."""

from __future__ import annotations

import pytest

from tests.runners import bindings


class Binding:
    """What pybind shows of a class: signatures in docstrings only."""

    size = 1
    method = property(lambda self: None)


class Overloaded:
    __name__ = "method"
    __signature__ = "none"
    __doc__ = """method(*args, **kwargs)
Overloaded function.

1. method(self: x.Binding, name: str, shape: tuple[int, ...]) -> bool

2. method(self: x.Binding, index: typing.SupportsInt = 0) -> bool
"""

    def __call__(self):
        pass


Binding.method = Overloaded()


@pytest.mark.parametrize(
    "call",
    ["thing.method()", "thing.method(1)", "thing.method('a', (1,))", "thing.method(name='a', shape=())", "thing.size"],
)
def test_a_right_use_passes(tmp_path, call):
    assert bindings.misuses(source(tmp_path, call), {"thing": Binding})[1] == []


@pytest.mark.parametrize(
    "call", ["thing.methods()", "thing.method(shape=())", "thing.method(1, 2, 3)", "thing.method(no=1)", "thing.sizes"]
)
def test_a_wrong_use_is_noticed(tmp_path, call):
    assert len(bindings.misuses(source(tmp_path, call), {"thing": Binding})[1]) == 1


def test_a_missing_name_is_noticed(tmp_path):
    path = source(tmp_path, "print(library.Binding.size, library.Binding.sise)")
    assert bindings.missing(path, "library", type("library", (), {"Binding": Binding})) == ["library.Binding.sise"]


def source(tmp_path, text):
    path = tmp_path / "source.py"
    path.write_text(text, encoding="utf-8")
    return path
