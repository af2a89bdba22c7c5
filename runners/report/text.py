"""Text that is safe in Markdown, and numbers as people write them.

Compilers' messages hold pipes, backticks, angle brackets, colour codes and line ends. Everything that
comes from a record passes through here before it meets the page.
"""

from __future__ import annotations

import hashlib
import math
import re
from urllib.parse import quote

SPACE = "\u00a0"
"""Joins the parts of one number or of a number and its unit, so that a narrow column cannot split them."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028\u2029\ud800-\udfff]")
_SPECIAL = re.compile(r"[&<>|`*_\[\]\\~$#]")


def readable(text: str) -> str:
    """`text` without colour codes and control characters, its lines ended alike."""
    return _CONTROL.sub("", _COLOUR.sub("", text)).replace("\r\n", "\n").replace("\r", "\n")


def one_line(text: str, limit: int | None = None) -> str:
    """`text` on one line, cut with an ellipsis after `limit` characters."""
    line = " ".join(readable(text).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + "…"


def prose(text: str, limit: int | None = None) -> str:
    """`text` as plain words anywhere in Markdown, a table included: what could be markup becomes an entity."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", one_line(text, limit))


def code(text: str, limit: int | None = None) -> str:
    """`text` in a fixed-width face, anywhere in Markdown, a table included."""
    line = one_line(text, limit)
    if not line:
        return ""
    if "`" in line or "|" in line:  # a code span cannot hold either of them inside a table
        return f"<code>{prose(line)}</code>"
    return f"`{line}`"


def fence(text: str, limit: int = 20_000) -> str:
    """`text` as a code block that its own backticks cannot end; a huge one loses its middle, and says so."""
    body = readable(text).strip("\n")
    if len(body) > limit:
        left_out = len(body) - limit
        body = (
            f"{body[: limit // 2]}\n… {left_out} characters left out here; compat.json has them …\n"
            f"{body[-limit // 2 :]}"
        )
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def link(label: str, path: str) -> str:
    """A Markdown link to a relative path; `label` is Markdown already."""
    return f"[{label}]({url(path)})"


def url(path: str) -> str:
    """A relative path as a link's target."""
    return quote(path, safe="/._-~")


def slug(words: str) -> str:
    """`words` as a part of a file name that is safe anywhere."""
    return re.sub(r"[^a-z0-9_]+", "-", words.lower()).strip("-")


def file_stem(name: str) -> str:
    """`name` as a file's stem that is safe anywhere and no other name's: one that cannot stay as it is gets a hash."""
    safe = slug(name)[:60].replace("-", "_")
    if safe == name:
        return name
    return f"{safe}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")


def count(number: float) -> str:
    """10000 -> 10 000, with spaces that do not break."""
    return f"{round(number):,}".replace(",", SPACE)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """1 -> '1 cell', 5 -> '5 cells'."""
    return f"{count(number)} {singular if number == 1 else plural or singular + 's'}"


def significant(number: float, digits: int = 3) -> str:
    """A number with so many significant digits and no exponent: 0.5 -> '0.500', 12345 -> '12 345'."""
    if number == 0:
        return "0"
    if abs(number) >= 10 ** (digits - 1):
        return count(number)
    places = digits - 1 - math.floor(math.log10(abs(float(f"{number:.{digits - 1}e}"))))
    return f"{number:.{places}f}" if places <= 9 else f"{number:.{digits - 1}e}"


def milliseconds(value: float) -> str:
    """A duration given in milliseconds, in the unit that suits it."""
    for limit, factor, unit in ((1e-3, 1e6, "ns"), (1.0, 1e3, "µs"), (1e3, 1.0, "ms")):
        if abs(value) < limit * 0.9995:
            return f"{significant(value * factor)}{SPACE}{unit}"
    return f"{significant(value / 1e3)}{SPACE}s"


def seconds(value: float) -> str:
    """A duration given in seconds, in the unit that suits it."""
    return milliseconds(value * 1e3)


def size(value: float) -> str:
    """A number of bytes in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{significant(value)}{SPACE}{unit}"
        value /= 1024
    return f"{significant(value)}{SPACE}GiB"


def multiple(value: float) -> str:
    """A factor: 1.83 -> '1.8×', 12.4 -> '12×'; just above 1 with a digit more, lest it read as 1."""
    return f"{significant(value, 3 if 1 < value < 1.095 else 2)}×"
