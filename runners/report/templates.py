"""The templates of the pages, with what they may call."""

from __future__ import annotations

import jinja2

from runners.report import text, verdicts, workloads
from runners.report.selection import MARK


def template(name: str) -> jinja2.Template:
    """A template of this folder. It makes Markdown, not HTML: `text` makes every value safe, and autoescape
    would spoil its code spans."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("runners.report", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    environment.filters |= {
        "code": text.code,
        "prose": text.prose,
        "fence": text.fence,
        "path": text.url,
        "stem": text.file_stem,
    }
    environment.globals |= {"link": text.link, "at": workloads.at, "symbols": verdicts.SYMBOLS, "mark": MARK}
    return environment.get_template(name)
