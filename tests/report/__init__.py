"""Tests of the report."""

from runners.report.text import SPACE


def plain(words: str) -> str:
    """With ordinary spaces, so that expectations can be typed."""
    return words.replace(SPACE, " ")
