"""3x3 convolutions while a network learns on a CPU: the core's, where they are faster than torch's."""

import torch
from torch import Tensor, nn

from shusaku.common.network.convolution_choice import Convolution, is_core_faster
from shusaku.common.network.core_convolution import CHANNEL_MULTIPLE, convolve_and_pass_by_core, convolve_by_core


def convolve(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """conv(x), [B, inputs, H, W] -> [B, outputs, H, W]."""
    return convolve_by_core(x, conv.weight) if _fits(conv, x) else conv(x)


def convolve_and_pass(conv: nn.Conv2d, x: Tensor) -> tuple[Tensor, Tensor]:
    """conv(x), and x for the skip of a residual block, as `convolve_and_pass_by_core` says."""
    return convolve_and_pass_by_core(x, conv.weight) if _fits(conv, x) else (conv(x), x)


def _fits(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether this is a training step on a CPU, x lies in memory as the core takes it, and the core is faster."""
    return (torch.is_grad_enabled() and conv.training and x.device.type == "cpu"
            and conv.kernel_size == (3, 3) and conv.padding == conv.stride == conv.dilation == (1, 1)
            and conv.padding_mode == "zeros" and conv.groups == 1 and conv.bias is None
            and conv.in_channels % CHANNEL_MULTIPLE == 0 and conv.out_channels % CHANNEL_MULTIPLE == 0
            and x.dtype is _type_of_step() and conv.weight.dtype is torch.float32
            and x.is_contiguous(memory_format=torch.channels_last) and is_core_faster(_asked(conv, x)))


def _type_of_step() -> torch.dtype:
    """What torch's convolution would compute in."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def _asked(conv: nn.Conv2d, x: Tensor) -> Convolution:
    boards, _, height, width = x.shape
    return Convolution(conv.in_channels, conv.out_channels, height, width, boards, torch.get_num_threads(), x.dtype)
