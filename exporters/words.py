"""What a native library prints on standard error when it fails, kept with the error that it raises."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def kept_words() -> Iterator[None]:
    """Add what is printed on file descriptor 2 to the message of an exception that leaves the block.

    Compilers in C++ print their diagnostics there, out of reach of `sys.stderr`, and raise little more than
    a number. Without an exception the text goes where it would have gone.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except Exception as error:
            error.args = (f"{error}\n{_text(file)}".rstrip(),)
            raise
        else:
            os.write(original, _text(file).encode())
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
