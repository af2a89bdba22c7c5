"""Imported once by the server that workers are forked from: torch and SciPy, and where there is no GPU torch's
own compilers. Nothing here starts a device or a compilation. Where torch is missing every lane will say so itself.
The server leaves the terminal's session, so that Ctrl-C reaches the study alone and never a worker that is just
being made."""

from __future__ import annotations

import contextlib
import os
import threading

from runners.study.device import gpu_facts

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # read at import

with contextlib.suppress(PermissionError):  # it leads a session already
    os.setsid()

with contextlib.suppress(Exception):  # a torch whose libraries do not load raises OSError
    import scipy.stats  # noqa: F401
    import torch

    if gpu_facts() is None:  # their import may ask the driver, which no fork could use after that
        import torch._dynamo
        import torch._inductor.compile_fx
        import torch.export  # noqa: F401

with contextlib.suppress(ImportError):
    from tqdm import tqdm

    # tqdm, which compilers use, would make a named semaphore that a worker ended by force never gives back.
    tqdm.set_lock(threading.RLock())
