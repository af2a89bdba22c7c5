"""The report: compat.md, the pages of the cases and the pictures, from records alone; no compiler is imported."""

from runners.report.page import write_report
from runners.report.selection import SameEnvironment

__all__ = ["SameEnvironment", "write_report"]
