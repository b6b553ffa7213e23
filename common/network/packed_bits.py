"""Packed positions become planes where the network is: what travels to a device is an eighth of a byte a cell."""

import torch
from torch import Tensor


class PackedBits:
    """Expands positions of one game on one device."""

    def __init__(self, shape: tuple[int, int, int], device: torch.device) -> None:
        """`shape`: channels, height and width of the planes; the binary ones come first."""
        self._shape = shape
        self._bits = torch.arange(8, dtype=torch.uint8, device=device)

    def expand(self, packed: Tensor, uniform: Tensor, kind: torch.dtype, cells: Tensor | None = None) -> Tensor:
        """Bits [B, P], least significant first, and uniform planes [B, U] -> [B, C, H, W] of `kind`, channels last.

        `cells` [B, H * W]: which cell of the position each cell of the planes shows; None: its own.
        """
        (c, h, w), (size, uniforms) = self._shape, uniform.shape
        bits = ((packed.unsqueeze(2) >> self._bits) & 1).view(size, -1)  # [B, 8 P]
        binary = bits[:, : (c - uniforms) * h * w].view(size, c - uniforms, h * w)
        if cells is not None:
            binary = binary.gather(2, cells.unsqueeze(1).expand(size, c - uniforms, h * w))
        planes = torch.cat([binary.to(kind).view(size, c - uniforms, h, w),
                            uniform.to(kind)[:, :, None, None].expand(size, uniforms, h, w)], dim=1)
        return planes.contiguous(memory_format=torch.channels_last)
