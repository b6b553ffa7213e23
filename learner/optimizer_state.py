"""An optimizer's state as named arrays: the same for every optimizer of torch, without pickle."""

import numpy as np
import torch
from numpy.typing import NDArray

from shusaku.common.errors import UsageError
from shusaku.learner.muon import Muon


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """`<number of the parameter>.<name>` -> live tensor, which the next step changes; step counts are scalars."""
    return {
        f"{number}.{name}": torch.as_tensor(value, dtype=torch.float32).detach()
        for number, parameter in enumerate(_parameters(optimizer))
        for name, value in optimizer.state[parameter].items() if value is not None
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, NDArray[np.float32]]) -> None:
    """The inverse, into an optimizer of the same kind over the same parameters; UsageError when they do not match."""
    parameters = _parameters(optimizer)
    kinds = {frozenset(key.partition(".")[2] for key in tensors if key.partition(".")[0] == number)
             for number in {key.partition(".")[0] for key in tensors}}
    if tensors and kinds != _kinds(optimizer):
        raise UsageError("the checkpoint was written by another optimizer; set learner.optimizer as it was trained")
    state: dict[torch.Tensor, dict[str, torch.Tensor]] = {parameter: {} for parameter in parameters}
    for key, array in tensors.items():
        number, _, name = key.partition(".")
        if int(number) >= len(parameters) or array.shape not in ((), tuple(parameters[int(number)].shape)):
            raise UsageError(f"the checkpoint's optimizer state ({key} of shape {array.shape}) belongs to another "
                             "network; set network.* as it was trained")
        parameter = parameters[int(number)]
        tensor = torch.from_numpy(array.copy())
        if array.shape:  # laid out like the parameter, which is channels last
            tensor = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
        state[parameter][name] = tensor.to(parameter.device)
    optimizer.state.clear()
    optimizer.state.update({parameter: entries for parameter, entries in state.items() if entries})


_MOMENTUM, _ADAM = frozenset({"momentum_buffer"}), frozenset({"step", "exp_avg", "exp_avg_sq"})
_STATE = {"SGD": _MOMENTUM, "Adam": _ADAM, "AdamW": _ADAM, "Muon": _ADAM}  # what an optimizer keeps of a parameter


def _kinds(optimizer: torch.optim.Optimizer) -> set[frozenset[str]]:
    """What it keeps of its parameters; Muon's first group has a momentum alone, unless it is empty."""
    kinds = {_STATE[type(optimizer).__name__]}
    return kinds | {_MOMENTUM} if isinstance(optimizer, Muon) and optimizer.param_groups[0]["params"] else kinds


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
