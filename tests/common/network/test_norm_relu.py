"""Batch norm, skip and ReLU at once, against torch's three in double precision."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common._core import norm_relu_backward, norm_relu_fits, norm_relu_forward
from shusaku.common.network import norm_relu as module
from shusaku.common.network.norm_relu import norm_relu

LAST = torch.channels_last
TYPES = [torch.float32, *([torch.bfloat16] if norm_relu_fits(True, 64, 32) else [])]
NAMES = ("y", "of_x", "of_skip", "of_weight", "of_bias", "running_mean", "running_var")
Sizes = tuple[int, int, int, int]


def layer(channels: int, dtype: torch.dtype = torch.float32) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels, eps=1e-3, dtype=dtype)
    norm.num_batches_tracked = None
    generator = torch.Generator().manual_seed(channels)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(channels, generator=generator) + 0.5)
        norm.bias.copy_(torch.randn(channels, generator=generator))
    return norm


def tensors(sizes: Sizes, dtype: torch.dtype, offset: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """x, skip, and the gradient of y."""
    generator = torch.Generator().manual_seed(1)
    return tuple((torch.randn(sizes, generator=generator) + shift).to(dtype).contiguous(memory_format=LAST)
                 for shift in (offset, 0.0, 0.0))  # type: ignore[return-value]


def results(norm: nn.BatchNorm2d, x: Tensor, skip: Tensor | None, gradient: Tensor) -> list[Tensor | None]:
    x = x.clone().requires_grad_()
    skip = skip if skip is None else skip.clone().requires_grad_()
    y = norm_relu(norm, x, skip)
    y.backward(gradient)
    assert norm.running_mean is not None
    return [y.detach(), x.grad, None if skip is None else skip.grad, norm.weight.grad, norm.bias.grad,
            norm.running_mean, norm.running_var]


def exact(norm: nn.BatchNorm2d, x: Tensor, skip: Tensor | None, gradient: Tensor, seen: Tensor) -> list[Tensor | None]:
    """In double; ReLU passes the gradient where the y that was `seen` is above 0, for its rounding decides at 0."""
    x = x.double().requires_grad_()
    skip = skip if skip is None else skip.double().requires_grad_()
    y = norm(x) if skip is None else norm(x) + skip
    y.backward(gradient.double() * (seen > 0))
    assert norm.running_mean is not None
    return [F.relu(y.detach()), x.grad, None if skip is None else skip.grad, norm.weight.grad, norm.bias.grad,
            norm.running_mean, norm.running_var]


@pytest.fixture
def in_the_core(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the core's loops were called."""
    calls: list[int] = []

    def counted(*arguments: int) -> None:
        calls.append(arguments[1])
        norm_relu_forward(*arguments)

    monkeypatch.setattr(module, "norm_relu_forward", counted)
    return calls


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("has_skip", [False, True])
@pytest.mark.parametrize(("sizes", "threads"), [
    ((256, 32, 6, 7), 1), ((16, 8, 3, 3), 1), ((32, 5, 3, 3), 1), ((2, 64, 1, 1), 1), ((6, 24, 5, 5), 1),
    ((5, 48, 9, 9), 1), ((64, 192, 19, 19), 1), ((64, 192, 19, 19), 3),
])
def test_it_is_what_torch_computes_in_double(
    sizes: Sizes, threads: int, has_skip: bool, dtype: torch.dtype, in_the_core: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    x, skip, gradient = tensors(sizes, dtype)
    found = results(layer(sizes[1]), x, skip if has_skip else None, gradient)
    assert in_the_core == [x.numel() // sizes[1]]
    assert found[0] is not None
    expected = exact(layer(sizes[1], torch.float64), x, skip if has_skip else None, gradient, found[0])
    for name, ours, wanted in zip(NAMES, found, expected, strict=True):
        if wanted is None:
            assert ours is None
            continue
        assert ours is not None
        is_stored = name in ("y", "of_x", "of_skip")
        assert ours.dtype is (dtype if is_stored else torch.float32)
        if is_stored:
            assert ours.is_contiguous(memory_format=LAST)
        error = 2.0**-8 if is_stored and dtype is torch.bfloat16 else 2.0**-19
        scale = float(wanted.abs().max())
        torch.testing.assert_close(ours.double(), wanted, rtol=error, atol=(error / 4 + 2e-6) * max(1.0, scale))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_mean_far_from_zero_costs_no_precision(dtype: torch.dtype) -> None:
    """A sum of squares in float would have lost all of a variance of 1 beside a mean of 10,000.

    What is left of an error is the rounding of the mean of a piece: 1e-3 beside a deviation of 1, squared.
    """
    x, _, gradient = tensors((128, 32, 6, 7), torch.float32, offset=0.0)
    x = (x + (10_000.0 if dtype is torch.float32 else 300.0)).to(dtype)
    norm, twin = layer(32), layer(32, torch.float64)
    found = results(norm, x, None, gradient.to(dtype))
    assert found[0] is not None
    exact(twin, x, None, gradient.to(dtype), found[0])
    assert norm.running_var is not None
    assert twin.running_var is not None
    torch.testing.assert_close(norm.running_var.double(), twin.running_var, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_it_gives_the_same_bits_again(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    x, skip, gradient = tensors((64, 192, 19, 19), dtype)
    first, second = (results(layer(192), x, skip, gradient) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_hidden(bad: float, dtype: torch.dtype) -> None:
    x, skip, gradient = tensors((16, 8, 3, 3), dtype)
    x[3, 2, 1, 1] = bad
    y, of_x, _, of_weight, *_ = results(layer(8), x, skip, gradient)
    for each in (y, of_x):
        assert each is not None
        assert each[:, 2].isnan().any()
        assert each[:, 3].isfinite().all(), "the other channels are their own"
    assert of_weight is not None
    assert not of_weight[2].isfinite()


class NormOfRanks(nn.BatchNorm2d):
    """Stands for `learner.global_norm.GlobalNorm`, whose statistics are those of several processes."""


@pytest.mark.parametrize("case", ["play", "no gradient", "other layout", "odd channels", "double", "ranks"])
def test_everything_else_is_left_to_torch(case: str, in_the_core: list[int]) -> None:
    channels = 5 if case == "odd channels" else 8
    dtype = torch.float64 if case == "double" else torch.float32
    x, skip, _ = tensors((15, channels, 3, 3), dtype)
    norm, twin = layer(channels, dtype), layer(channels, dtype)
    if case == "ranks":
        norm.__class__ = NormOfRanks
    norm.train(case != "play")
    twin.train(case != "play")
    if case == "other layout":
        x = x.contiguous()
    with torch.set_grad_enabled(case != "no gradient"):
        y = norm_relu(norm, x, skip)
        wanted = F.relu(twin(x) + skip)
    torch.testing.assert_close(y, wanted)
    assert in_the_core == []


def test_a_gradient_that_lies_otherwise_is_taken() -> None:
    x, skip, gradient = tensors((16, 8, 3, 3), torch.float32)
    one, other = (results(layer(8), x, skip, each) for each in (gradient, gradient.contiguous()))
    assert one[1] is not None
    assert other[1] is not None
    assert torch.equal(one[1], other[1])


def test_rows_that_fill_no_registers_are_refused() -> None:
    assert not norm_relu_fits(False, 9, 3)
    assert not norm_relu_fits(False, 0, 8)
    with pytest.raises(ValueError, match="9 rows of 3 channels"):
        norm_relu_forward(False, 9, 3, 1, 0, 0, 0, 0, 0, 0, 0.1, 1e-3, 0, 0, 0)
    with pytest.raises(ValueError, match="9 rows of 3 channels"):
        norm_relu_backward(False, 9, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
