"""The report: compat.md, a page for each case, and pictures, made from records alone; no compiler and no torch is imported."""

from runners.report.page import write_report
from runners.report.selection import SameEnvironment

__all__ = ["SameEnvironment", "write_report"]
