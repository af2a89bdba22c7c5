"""What the README tells to write is what works, to the letter."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from exporters.exporter import Request, Unavailable
from runners import backends
from runners.backends import Backend

README = (Path(__file__).parent.parent / "README.md").read_text()
SECTION = README.split("### Add a backend", 1)[1].split("\n### ", 1)[0]
RUNNER, LINE = (textwrap.dedent(block) for block in re.findall(r"```(?:python|text)\n(.*?)```", SECTION, re.DOTALL))


def test_the_line_is_an_entry_of_the_table() -> None:
    (entry,) = eval(f"({LINE})", vars(backends))
    assert isinstance(entry, Backend)
    assert entry.provide == "pip install -c constraints.txt '.[my_engine]'"


def test_the_file_is_a_runner(tmp_path: Path) -> None:
    written: dict[str, Any] = {}
    exec(RUNNER, written)
    with pytest.raises(Unavailable) as missing:
        written["probe"](Request((), "cpu", tmp_path))
    assert missing.value.code == "ENV.no_package"
    assert callable(written["load"])
