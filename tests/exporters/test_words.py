"""What a native library prints on standard error belongs to the error it raises."""

from __future__ import annotations

import os
import sys

import pytest

from exporters.words import kept_words


def fail():
    with kept_words():
        os.write(2, b"from C\n")
        print("from Python", file=sys.stderr)
        raise ValueError("number 7")


def test_what_is_printed_is_added_to_the_message(capfd):
    with pytest.raises(ValueError, match="number 7") as error:
        fail()
    assert str(error.value) == "number 7\nfrom C\nfrom Python"
    assert capfd.readouterr().err == ""


def test_without_an_error_it_goes_where_it_would_have_gone(capfd):
    with kept_words():
        os.write(2, b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"
