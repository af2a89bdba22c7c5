"""Watching operators: which of a module's operators would make the host wait, were its tensors on CUDA.

Two modes look on. The dispatch mode sees every ATen operator with its tags. The function mode sees what leaves no
operator behind when all tensors are on the CPU: copies to the host, and tensors made without naming a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

SIZE = "the output's size depends on values"
VALUE = "a value is read on the host"
MASK = "a boolean index is turned into positions, whose number the host must know"
TO_HOST = "copied to the host"
TO_DEVICE = "copied from the host to the device"
CHECKED = "the kernel's arguments are checked on the host"

COPIES_TO_HOST = frozenset({"cpu", "tolist", "numpy", "__array__", "__dlpack__"})
COPIES_TO_DEVICE = frozenset({"tensor", "as_tensor", "asarray", "from_numpy"})
INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})

UNTAGGED = frozenset({"aten::multinomial", "aten::_linalg_check_errors"})
"""Operators that read a value back on CUDA though no tag says so: aten/src/ATen/native/Distributions.cpp
(multinomial without replacement), aten/src/ATen/native/BatchLinearAlgebra.cpp."""

FREE = frozenset(
    {
        "aten::detach",
        "aten::_local_scalar_dense",
        "aten::empty",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::empty_like",
    }
)
"""Operators that launch no kernel although they are no views."""


class Watch:
    """What was seen: `waits` counts (operator, why, line), `launches` operators that compute on the device,
    `uncapturable` operators that PyTorch itself marks as unfit for a CUDA graph."""

    def __init__(self, line: Callable[[], str | None]) -> None:
        self.waits: Counter[tuple[str, str, str | None]] = Counter()
        self.launches = 0
        self.uncapturable: set[str] = set()
        self._line = line
        # The tensors themselves are kept, so that no identity is given out twice.
        self._host: dict[int, torch.Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        functions, operators = _modes(self)
        with functions, operators:
            yield

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, launches: int) -> Any:
        """A call of torch's Python interface, after it returned; gives the result that the caller gets.
        `launches` is the count from before the call."""
        given = _tensors((args, kwargs))
        device = kwargs.get("device")
        if given and not self._all_on_host(given):
            if name in COPIES_TO_HOST or (name == "to" and "cpu" in (*args[1:], device)):
                self._wait(name, TO_HOST)
                # On the CPU the copy is the tensor itself; only a true copy can be told from it.
                result = result.clone() if result is args[0] else result
                self._mark(result)
            elif name == "new_tensor":
                self._wait(name, TO_DEVICE)
        elif not given and device is None:
            self.launches = launches
            self._mark(result)
        elif not given and name in COPIES_TO_DEVICE:
            self._wait(name, TO_DEVICE)
            self._unmark(result)
        return result

    def on_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """One ATen operator, after it ran."""
        import torch

        given = _tensors((args, kwargs))
        name: str = operator._schema.name
        # `lift_fresh` wraps a Python value; on_function corrects it where a device was named.
        if name == "aten::lift_fresh" or (given and self._all_on_host(given)):
            self._mark(result)
            return
        why = self._why(name, operator.tags, args, kwargs)
        if why:
            self._wait(name, why)
        unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)  # not in every torch
        if unsafe is not None and unsafe in operator.tags:
            self.uncapturable.add(f"{name}: marked cudagraph_unsafe")
        self.launches += not operator.is_view and name not in FREE

    def _why(self, name: str, tags: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        import torch

        if name in INDEXING:
            return self._why_index(name, args)
        if name == "aten::repeat_interleave" and kwargs.get("output_size") is not None:
            return None
        if name == "aten::multinomial" and len(args) > 2 and args[2] and args[1] > 1:
            return None  # with replacement, the kernel checks for itself
        if torch.Tag.dynamic_output_shape in tags:
            return SIZE
        if torch.Tag.data_dependent_output in tags:
            return VALUE
        return CHECKED if name in UNTAGGED else None

    def _why_index(self, name: str, args: tuple[Any, ...]) -> str | None:
        import torch

        indices = _tensors(args[1])
        masks = [index for index in indices if index.dtype in (torch.bool, torch.uint8)]
        if masks:
            # One mask and one host number become a masked fill, which needs no positions.
            filled = name != "aten::index" and len(indices) == 1 and args[2].numel() == 1
            return None if filled and self._all_on_host([args[2]]) else MASK
        return TO_DEVICE if any(id(index) in self._host for index in indices) else None

    def _wait(self, name: str, why: str) -> None:
        self.waits[name, why, self._line()] += 1

    def _mark(self, result: Any) -> None:
        self._host.update((id(tensor), tensor) for tensor in _tensors(result))

    def _unmark(self, result: Any) -> None:
        for tensor in _tensors(result):
            self._host.pop(id(tensor), None)

    def _all_on_host(self, tensors: list[torch.Tensor]) -> bool:
        return all(id(tensor) in self._host for tensor in tensors)


def _modes(watch: Watch) -> tuple[Any, Any]:
    """The two modes that report to `watch`."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            launches = watch.launches
            result = func(*args, **kwargs)
            return watch.on_function(getattr(func, "__name__", ""), args, kwargs, result, launches)

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            watch.on_operator(func, args, kwargs, result)
            return result

    return Functions(), Operators()


def _tensors(values: Any) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
