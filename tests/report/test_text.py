"""What compilers write must not break the page; numbers are written as people write them."""

from __future__ import annotations

import re

import pytest

from runners.report import text

NASTY = "# a | b `c`\n</details> <script> *x* \x1b[31mred\x1b[0m \x00 [l](u) $m$"


def test_prose_leaves_no_markup_and_stays_on_one_line() -> None:
    words = text.prose(NASTY)
    assert not set("|`<>*[]$\n\x1b\x00") & set(words)
    assert words.startswith("&#35; a &#124; b &#96;c&#96; &#60;/details&#62;")
    assert "red" in words


def test_code_is_a_code_span_unless_a_table_would_tear_it() -> None:
    assert text.code("aten.nonzero <x>") == "`aten.nonzero <x>`"
    assert text.code("K|N `k`") == "<code>K&#124;N &#96;k&#96;</code>"
    assert text.code("") == ""


def test_a_fence_is_longer_than_any_run_of_backticks_in_it() -> None:
    assert text.fence("x ```` y") == "`````text\nx ```` y\n`````"


def test_a_huge_text_loses_its_middle_and_says_so() -> None:
    block = text.fence("a" * 60 + "b" * 60, limit=100)
    assert "… 20 characters left out here" in block
    assert block.count("a") >= 50
    assert "b" * 50 in block


def test_one_line_is_cut_with_an_ellipsis() -> None:
    assert text.one_line("one\n two   three", 9) == "one two…"


def test_link_quotes_the_path() -> None:
    assert text.link("replay", "a b/(x)#1.py") == "[replay](a%20b/%28x%29%231.py)"


def test_a_file_stem_is_safe_and_no_other_names() -> None:
    names = ["nms", "NMS", "my-case", "my_case", "my case", "../my_case", "a" * 300, "a" * 301, "été", "", "\ud800"]
    stems = [text.file_stem(name) for name in names]
    assert len(set(stems)) == len(names)
    assert (stems[0], stems[3]) == ("nms", "my_case")
    assert all(re.fullmatch(r"[a-z0-9_]{0,60}(-?[0-9a-f]{8})?", stem) for stem in stems)


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0.0000005, "0.500 ns"), (0.0123, "12.3 µs"), (0.9999, "1.00 ms"), (1, "1.00 ms"), (12.34, "12.3 ms"),
        (999.9, "1.00 s"), (123, "123 ms"), (61_000, "61.0 s"), (0, "0 ns"),
    ],
)  # fmt: skip
def test_durations(milliseconds: float, words: str) -> None:
    assert text.milliseconds(milliseconds).replace(text.SPACE, " ") == words


def test_numbers() -> None:
    assert text.count(1_234_567) == f"1{text.SPACE}234{text.SPACE}567"
    assert text.multiple(1.83) == "1.8×"
    assert text.multiple(0.25) == "0.25×"
    assert text.multiple(52.4) == "52×"
    assert text.significant(0.0999996) == "0.100"
    assert text.size(2_621_440) == f"2.50{text.SPACE}MiB"
    assert text.counted(1, "backend") == "1 backend"
    assert text.counted(0, "backend") == "0 backends"
