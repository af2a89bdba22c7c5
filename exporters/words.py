"""What a native library prints on standard error when it fails, kept with the error that it raises."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import IO


@contextmanager
def kept_words() -> Iterator[None]:
    """Add what is printed on standard error to the message of an exception that leaves the block.

    Compilers in C++ print their diagnostics on file descriptor 2, out of reach of `sys.stderr`, or on
    `sys.stderr`, which need not be descriptor 2, and raise little more than a number. Without an exception
    the text goes where it would have gone.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), 2)
        try:
            with redirect_stderr(file):
                yield
        except Exception as error:
            error.args = (f"{error}\n{_text(file)}".rstrip(),)
            raise
        else:
            os.write(original, _text(file).encode())
        finally:
            os.dup2(original, 2)
            os.close(original)


def _text(file: IO[str]) -> str:
    file.flush()
    file.seek(0)
    return file.read()
