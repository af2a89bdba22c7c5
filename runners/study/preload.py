"""Imported once by the server that workers are forked from: torch and SciPy, and nothing that starts a device or
a compiler. Where torch is missing every lane will say so itself. The server leaves the terminal's session, so
that Ctrl-C reaches the study alone and never a worker that is just being made."""

from __future__ import annotations

import contextlib
import os
import threading

with contextlib.suppress(PermissionError):  # it leads a session already
    os.setsid()

with contextlib.suppress(Exception):  # a torch whose libraries do not load raises OSError
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401

with contextlib.suppress(ImportError):
    from tqdm import tqdm

    # tqdm, which compilers use, would make a named semaphore that a worker ended by force never gives back.
    tqdm.set_lock(threading.RLock())
