"""A convolution whose weights wait for their gradient has the result and the gradients of torch's own."""

import pytest
import torch

from shusaku.learner.late_gradients import LateConvolution, LateGradients


@pytest.mark.parametrize(("size", "dtype"), [(3, torch.bfloat16), (3, torch.float32), (1, torch.float32)])
def test_the_same_numbers_as_torch(size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    own = torch.nn.Conv2d(5, 6, size, padding=size // 2, bias=False).to(memory_format=torch.channels_last)
    x = torch.randn(4, 5, 6, 7).contiguous(memory_format=torch.channels_last)
    results = []
    late = LateGradients()
    other = LateConvolution(own, late)
    for convolution in (own, other):
        own.weight.grad = None
        inputs = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            y = convolution(inputs)
        assert y.dtype == dtype
        (y.float() * torch.arange(y.numel()).view(y.shape) / y.numel()).sum().backward()
        if convolution is other:
            assert own.weight.grad is None, "later"
            late.run()
        assert own.weight.grad is not None
        assert own.weight.grad.stride() == own.weight.stride(), "as autograd lays it out, for fused optimizers"
        results.append((y.detach(), inputs.grad, own.weight.grad))
    for expected, found in zip(*results, strict=True):
        assert torch.equal(expected, found)


def test_two_ways_back_are_added_and_a_first_layer_has_no_gradient_of_its_planes() -> None:
    late = LateGradients()
    own = torch.nn.Conv2d(2, 3, 3, padding=1, bias=False)
    convolution, planes = LateConvolution(own, late), torch.randn(2, 2, 4, 4)
    (convolution(planes).sum() + convolution(2 * planes).sum()).backward()
    late.run()
    found = own.weight.grad
    own.weight.grad = None
    (3 * own(planes).sum()).backward()
    assert found is not None
    assert own.weight.grad is not None
    assert torch.allclose(found, own.weight.grad, rtol=1e-4, atol=1e-4)
    late.run()
    assert own.weight.grad is not found, "nothing is left to be computed again"
