"""How the gradient becomes a step: three optimizers and three schedules of the learning rate."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from common.config import LearnerConfig

Groups = list[dict[str, Any]]
FINAL_SHARE = 0.05  # of the learning rate that `cosine` ends at


def _sgd(groups: Groups, config: LearnerConfig) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, fused=True)


def _adam(groups: Groups, config: LearnerConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)


def _adamw(groups: Groups, config: LearnerConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


OPTIMIZERS: dict[str, Callable[[Groups, LearnerConfig], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
}


def make_optimizer(network: nn.Module, config: LearnerConfig) -> torch.optim.Optimizer:
    """The optimizer with two groups: kernels and matrices decay, batch norms and biases do not.

    `learner.weight_decay` is the c of c * |theta|^2 (AlphaGo Zero, Methods).  sgd and adam add that loss's gradient,
    2 c theta; adamw shrinks theta by lr * c itself (Loshchilov and Hutter 2019).
    """
    decay = config.weight_decay if config.optimizer == "adamw" else 2 * config.weight_decay
    parameters = list(network.parameters())
    groups: Groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[config.optimizer](groups, config)


def learning_rate(step: int, config: LearnerConfig) -> float:
    """The rate of gradient step `step` (from 0): a linear warm-up times the schedule."""
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    return config.learning_rate * warmup * SCHEDULES[config.schedule](min(1.0, step / config.schedule_steps))


def _cosine(progress: float) -> float:
    return FINAL_SHARE + (1 - FINAL_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))


def _thirds(progress: float) -> float:
    return float(0.1 ** min(3, int(3 * progress)))


SCHEDULES: dict[str, Callable[[float], float]] = {  # share of `learner.schedule_steps` done -> factor
    "constant": lambda progress: 1.0,
    "cosine": _cosine,
    "step": _thirds,
}
