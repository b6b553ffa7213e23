"""How the gradient becomes a step: four optimizers and four schedules of the learning rate."""

import inspect
import math
from collections.abc import Callable

import torch
from torch import nn

from shusaku.common.config.schema import LearnerConfig, RunConfig
from shusaku.learner.muon import Muon, tower_kernels

FINAL_SHARE = 0.05  # of the learning rate that `cosine` and `cooldown` end at

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
}

# torch wraps these methods so that the first call imports its compiler, torch._dynamo, unless they have this attribute.
# Nothing here is compiled, and the import takes 1.3 s and 75 MB of every start.  See torch/_compile.py.
for _name in ("add_param_group", "zero_grad"):
    _method = inspect.unwrap(getattr(torch.optim.Optimizer, _name))
    _method.__dict__.setdefault("__dynamo_disable", _method)


def make_optimizer(network: nn.Module, config: LearnerConfig) -> torch.optim.Optimizer:
    """The optimizer with two groups: kernels and matrices decay, batch norms and biases do not.

    `learner.weight_decay` is the c of c * |theta|^2 (AlphaGo Zero, Methods).  sgd and adam add that loss's gradient,
    2 c theta; adamw and muon shrink theta by lr * c itself (Loshchilov and Hutter 2019).  muon has a further group
    before these, of the tower's kernels.
    """
    decay = config.weight_decay if config.optimizer in ("adamw", "muon") else 2 * config.weight_decay
    kernels = tower_kernels(network) if config.optimizer == "muon" else {}
    parameters = [parameter for name, parameter in network.named_parameters() if name not in kernels]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]
    if config.optimizer == "sgd":
        return OPTIMIZERS["sgd"](groups, lr=config.learning_rate, fused=True, momentum=config.momentum)
    # What only Adam asks for when a CUDA graph is captured; the numbers are the same.
    adam = {"lr": config.learning_rate, "fused": True, "capturable": config.is_on_gpu}
    if config.optimizer == "muon":
        return Muon(list(kernels.values()), decay, groups, momentum=config.momentum, **adam)
    return OPTIMIZERS[config.optimizer](groups, **adam)


def take_step(optimizer: torch.optim.Optimizer) -> None:
    """`optimizer.step()` below the wrapper of torch that imports the compiler whenever it is called."""
    with torch.no_grad():
        inspect.unwrap(type(optimizer).step)(optimizer)


def learning_rate(step: int, config: LearnerConfig, run_share: float = 0.0, first: int = 0) -> float:
    """The rate of gradient step `step` (from 0): a linear warm-up from step `first` on times the schedule.

    `run_share`: of the run that is over, 0 to 1, by its time or by `learner.steps`; what `cooldown` goes by, as it may
    be unknown beforehand how many steps a machine will make.
    """
    warmup = min(1.0, (step + 1 - first) / config.warmup_steps) if config.warmup_steps else 1.0
    return config.learning_rate * warmup * SCHEDULES[config.schedule](step, run_share, config)


def run_share(seconds: float, run: RunConfig) -> float:
    """How much of `run.minutes` so many seconds of training are; 0 to 1."""
    return min(1.0, seconds / (60 * run.minutes)) if run.minutes else 1.0


def _cooldown(step: int, run_share: float, config: LearnerConfig) -> float:
    """Constant, then linear to FINAL_SHARE (Hägele et al. 2024, section 3): a longer run may go on from before."""
    left = max(0.0, 1 - run_share)
    return FINAL_SHARE + (1 - FINAL_SHARE) * min(1.0, left / config.cooldown_share)


def _cosine(step: int, run_share: float, config: LearnerConfig) -> float:
    progress = min(1.0, step / config.schedule_steps)
    return FINAL_SHARE + (1 - FINAL_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))


def _drops(step: int, run_share: float, config: LearnerConfig) -> float:
    """A tenth after each of the drops: AlphaZero's learning rate (Silver et al. 2018, Methods)."""
    drops = config.schedule_drops or [config.schedule_steps * third // 3 for third in (1, 2, 3)]
    return float(0.1 ** sum(step >= drop for drop in drops))


SCHEDULES: dict[str, Callable[[int, float, LearnerConfig], float]] = {  # (step, share of the run, settings) -> factor
    "constant": lambda step, run_share, config: 1.0,
    "cooldown": _cooldown,
    "cosine": _cosine,
    "step": _drops,
}
