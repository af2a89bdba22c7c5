"""Imported once by the server that workers are forked from: torch, and nothing that starts a thread pool,
a device or a compiler. Where torch is missing every lane will say so itself."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    import torch  # noqa: F401
