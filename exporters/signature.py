"""How a module's arguments and outputs map onto the flat tensors of an artifact made from its exported program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class Signature:
    """`inputs` are the places, among the leaves of the arguments, of what the program takes; constants such
    as None or a Python number are leaves without an input. `structure` is the tree of the outputs; a leaf of
    it that is no tensor stands in `constants`, by its place; `numbers` are the places of Python numbers that
    the program computes, which engines return as tensors."""

    inputs: tuple[int, ...]
    structure: Any
    constants: dict[int, Any]
    numbers: frozenset[int]

    def flatten(self, arguments: Sequence[Any]) -> list[Tensor]:
        """The contiguous tensors that the engine takes, in its order; a Python number becomes a 0-d tensor.

        Nothing is copied but what is not contiguous: engines take an address and no strides.
        """
        import torch
        from torch.utils._pytree import tree_leaves

        plain = all(isinstance(argument, torch.Tensor) for argument in arguments)
        leaves = arguments if plain else tree_leaves(arguments)
        taken = [leaves[place] for place in self.inputs]
        tensors = [leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in taken]
        return [tensor.detach().contiguous() for tensor in tensors]

    def restore(self, outputs: Sequence[Any]) -> Any:
        """The module's outputs from the engine's: what is constant is put back where it belongs.

        An exported program returns the inputs it changes before its outputs; they are left out.
        """
        from torch.utils._pytree import tree_unflatten

        values = iter(outputs[len(outputs) - self.structure.num_leaves + len(self.constants) :])
        leaves = [
            self.constants[place] if place in self.constants else self._value(place, next(values))
            for place in range(self.structure.num_leaves)
        ]
        return tree_unflatten(leaves, self.structure)

    def _value(self, place: int, value: Any) -> Any:
        return value.item() if place in self.numbers and hasattr(value, "item") else value


def signature_of(program: ExportedProgram) -> Signature:
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

    arguments = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    returned = [spec.arg for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    return Signature(
        inputs=tuple(place for place, argument in enumerate(arguments) if not isinstance(argument, ConstantArgument)),
        structure=program.call_spec.out_spec,
        constants={
            place: argument.value for place, argument in enumerate(returned) if isinstance(argument, ConstantArgument)
        },
        numbers=frozenset(
            place
            for place, argument in enumerate(returned)
            if not isinstance(argument, (ConstantArgument, TensorArgument))
        ),
    )
