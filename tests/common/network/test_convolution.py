"""The core's convolutions of a gradient step, against torch's in double precision, and when they are taken."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common import measured_choices
from shusaku.common._core import convolution_backward, convolution_forward, convolution_ways
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network import convolution, convolution_choice, core_convolution, norm_relu
from shusaku.common.network.convolution import convolve, convolve_and_pass
from shusaku.common.network.convolution_choice import LEAST_BOARDS, TIMED_WORK, Convolution, is_core_faster
from shusaku.common.network.network import Network

LAST = torch.channels_last
Sizes = tuple[int, int, int, int]


@pytest.fixture
def in_the_core(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The sizes of the core's calls, which is taken wherever it can be."""
    calls: list[Any] = []

    def counted(is_bf16: bool, sizes: Any, *arguments: Any) -> None:
        calls.append(sizes)
        convolution_forward(is_bf16, sizes, *arguments)

    monkeypatch.setattr(convolution, "is_core_faster", lambda asked: True)
    monkeypatch.setattr(core_convolution, "convolution_forward", counted)
    return calls


def layer(inputs: int, outputs: int) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        conv.weight.copy_(torch.randn(conv.weight.shape, generator=torch.Generator().manual_seed(inputs)) / inputs**0.5)
    return conv


def tensors(sizes: Sizes, outputs: int) -> tuple[Tensor, Tensor]:
    """x, and the gradient of y."""
    generator = torch.Generator().manual_seed(1)
    boards, _, height, width = sizes
    return (torch.randn(sizes, generator=generator).contiguous(memory_format=LAST),
            torch.randn((boards, outputs, height, width), generator=generator).contiguous(memory_format=LAST))


@pytest.mark.parametrize(("dtype", "way"), [
    (dtype, way) for dtype in (torch.float32, torch.bfloat16) for way in convolution_ways(dtype is torch.bfloat16)])
@pytest.mark.parametrize("kernels_last", [False, True])
@pytest.mark.parametrize(("sizes", "outputs", "threads"), [
    ((1, 16, 1, 1), 16, 1), ((5, 16, 2, 3), 48, 1), ((70, 32, 6, 7), 32, 1), ((9, 64, 5, 5), 16, 1),
    ((33, 16, 3, 3), 32, 1), ((20, 32, 9, 9), 32, 1), ((7, 48, 8, 8), 16, 1), ((3, 32, 19, 19), 64, 1),
    ((5, 16, 7, 11), 16, 1), ((130, 32, 6, 7), 48, 3), ((101, 16, 8, 8), 32, 2), ((0, 16, 6, 7), 32, 1),
    ((11, 80, 13, 13), 48, 1), ((2, 16, 37, 37), 16, 1), ((600, 16, 1, 2), 16, 1),
])
def test_it_is_what_torch_computes_in_double(
    sizes: Sizes, outputs: int, threads: int, kernels_last: bool, dtype: torch.dtype, way: str,
    in_the_core: list[Any], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What bf16 loses is the rounding of what is stored; a matrix unit rounds the kernels, too.  Sums are floats."""
    monkeypatch.setitem(core_convolution.WAY, dtype, way)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    conv = layer(sizes[1], outputs)
    if kernels_last:
        conv = conv.to(memory_format=LAST)  # type: ignore[call-overload]
    x, gradient = (tensor.to(dtype) for tensor in tensors(sizes, outputs))
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        y = convolve(conv, x)
    y.backward(gradient)
    assert in_the_core == [(sizes[0], *sizes[2:], sizes[1], outputs, threads)]
    assert y.is_contiguous(memory_format=LAST)
    kernels = conv.weight.detach().bfloat16() if way == "amx" else conv.weight.detach()
    twin, kernels = x.detach().double().requires_grad_(), kernels.double().requires_grad_()
    wanted = F.conv2d(twin, kernels, padding=1)
    wanted.backward(gradient.double())
    assert x.grad is not None
    assert conv.weight.grad is not None
    assert x.grad.is_contiguous(memory_format=LAST)
    assert (y.dtype, x.grad.dtype, conv.weight.grad.dtype) == (dtype, dtype, torch.float32)
    for ours, exact in ((y, wanted), (x.grad, twin.grad), (conv.weight.grad, kernels.grad)):
        assert exact is not None
        scale = max(1.0, float(exact.detach().abs().max())) if exact.numel() else 1.0
        torch.testing.assert_close(ours.double(), exact, rtol=2.0**-8 if ours.dtype is torch.bfloat16 else 0,
                                   atol=2e-5 * scale)


@pytest.mark.parametrize(("dtype", "way"), [
    (dtype, way) for dtype in (torch.float32, torch.bfloat16) for way in convolution_ways(dtype is torch.bfloat16)])
@pytest.mark.parametrize("sizes", [(9, 16, 6, 7), (20, 48, 5, 5), (3, 64, 19, 19)])
@pytest.mark.usefixtures("in_the_core")
def test_a_skip_has_its_gradient_added(
    sizes: Sizes, dtype: torch.dtype, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(core_convolution.WAY, dtype, way)
    conv = layer(sizes[1], 32)
    x, gradient = (tensor.to(dtype) for tensor in tensors(sizes, 32))
    x.requires_grad_()
    of_skip = torch.randn(sizes, generator=torch.Generator().manual_seed(5)).to(dtype).contiguous(memory_format=LAST)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        y, passed = convolve_and_pass(conv, x)
        alone = convolve(conv, x)
    assert torch.equal(y, alone)
    assert torch.equal(passed, x)
    expected, kernels = torch.autograd.grad(alone, (x, conv.weight), gradient)
    found, own_kernels = torch.autograd.grad((y, passed), (x, conv.weight), (gradient, of_skip.clone()))
    assert found.is_contiguous(memory_format=LAST)
    assert torch.equal(own_kernels, kernels)
    # bf16: the sum is rounded once here, and the convolution's gradient before it is added, there.
    torch.testing.assert_close(found.float(), expected.float() + of_skip.float(), rtol=0,
                               atol=2e-6 if dtype is torch.float32 else 2.0**-7 * float(expected.abs().max()))


@pytest.mark.usefixtures("in_the_core")
def test_a_gradient_of_the_inputs_that_is_not_asked_for_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(is_bf16: bool, sizes: Any, *arguments: Any) -> None:
        asked.append(arguments[5])  # the address of the gradient of x
        convolution_backward(is_bf16, sizes, *arguments)

    monkeypatch.setattr(core_convolution, "convolution_backward", counted)
    conv = layer(16, 16)
    x, gradient = tensors((4, 16, 6, 7), 16)
    convolve(conv, x).backward(gradient)
    assert asked == [0]
    expected = torch.autograd.grad(F.conv2d(x, conv.weight, padding=1), conv.weight, gradient)[0]
    torch.testing.assert_close(conv.weight.grad, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("in_the_core")
def test_a_gradient_in_another_order_of_memory_is_the_same() -> None:
    conv = layer(16, 32)
    x, gradient = tensors((4, 16, 6, 7), 32)
    x.requires_grad_()
    last, = torch.autograd.grad(convolve(conv, x), x, gradient)
    first, = torch.autograd.grad(convolve(conv, x), x, gradient.contiguous())
    torch.testing.assert_close(first, last, rtol=0, atol=0)


@pytest.mark.parametrize("squeeze", [0, 8])
@pytest.mark.parametrize("norms", ["the core's", "torch's"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_network_learns_the_same_as_by_torch(
    squeeze: int, norms: str, dtype: torch.dtype, in_the_core: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All gradients of a whole network, its norms included; torch's sum hands a block and its skip one gradient."""
    config = NetworkConfig(filters=32, blocks=3, policy_filters=4, value_filters=4, squeeze=squeeze)
    planes = (torch.rand((64, 3, 6, 7), generator=torch.Generator().manual_seed(2)) < 0.4).float()
    if norms == "torch's":
        monkeypatch.setattr(norm_relu, "_fits", lambda *of: False)

    def gradients() -> dict[str, Tensor]:
        network = Network((3, 6, 7), 7, config, seed=1).train().to(memory_format=LAST)  # type: ignore[call-overload]
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            answers = network(planes.contiguous(memory_format=LAST))
        sum((answer.float()**2).sum() for answer in answers.values()).backward()
        return {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None}

    ours = gradients()
    assert len(in_the_core) == 6
    monkeypatch.setattr(convolution, "is_core_faster", lambda asked: False)
    torchs = gradients()
    assert len(in_the_core) == 6
    assert ours.keys() == torchs.keys()
    for name, gradient in torchs.items():
        if dtype is torch.bfloat16:  # roundings add up on the way, and change no direction
            assert F.cosine_similarity(ours[name].flatten(), gradient.flatten(), dim=0) > 0.98, name
            continue
        scale = float(gradient.abs().max())
        torch.testing.assert_close(ours[name], gradient, rtol=0, atol=2e-3 * scale, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.usefixtures("in_the_core")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_gradient_of_both_and_none_of_the_inputs(dtype: torch.dtype) -> None:
    conv = layer(16, 16)
    x, gradient = (tensor.to(dtype) for tensor in tensors((4, 16, 6, 7), 16))

    def of_both(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            return convolve_and_pass(conv, x)

    y, _ = of_both(x)
    alone, = torch.autograd.grad(y, conv.weight, gradient)
    y, passed = of_both(x.requires_grad_())
    kept = gradient.clone()
    of_x, of_kernels = torch.autograd.grad((y, passed), (x, conv.weight), (gradient, gradient))
    assert torch.equal(of_kernels, alone)
    assert torch.equal(gradient, kept)
    y, passed = of_both(x)
    expected, = torch.autograd.grad((y, passed), x, (gradient, gradient.clone()))
    assert torch.equal(of_x, expected)


@pytest.mark.parametrize("of", ["size", "inputs", "outputs", "bias", "evaluation", "no gradient", "order", "double",
                                "autocast", "processor", "groups", "stride"])
def test_the_rest_is_torchs(of: str, in_the_core: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = tensors((4, 24 if of == "inputs" else 16, 6, 7), 16)
    conv = nn.Conv2d(x.shape[1], 24 if of == "outputs" else 16, 1 if of == "size" else 3,
                     padding=0 if of == "size" else 1, bias=of == "bias", groups=2 if of == "groups" else 1,
                     stride=2 if of == "stride" else 1)
    if of == "evaluation":
        conv.eval()
    if of == "order":
        x = x.contiguous()
    if of == "double":
        conv, x = conv.double(), x.double()
    if of == "processor":
        monkeypatch.setattr(convolution, "is_core_faster", lambda asked: False)
    with torch.set_grad_enabled(of != "no gradient"), torch.autocast("cpu", torch.bfloat16, enabled=of == "autocast"):
        y = convolve(conv, x)
        expected = conv(x)
    assert not in_the_core
    torch.testing.assert_close(y, expected, rtol=0, atol=0)


def test_channels_that_fill_no_registers_are_refused() -> None:
    with pytest.raises(ValueError, match="24 inputs and 16 outputs, not multiples of 16"):
        convolution_forward(False, (1, 6, 7, 24, 16, 1), 0, 0, (1, 1, 1), 0, "winograd_8")
    with pytest.raises(ValueError, match="16 inputs and 0 outputs, not multiples of 16"):
        convolution_backward(True, (1, 6, 7, 16, 0, 1), 0, 0, 0, (1, 1, 1), False, 0, 0, (1, 1, 1), "winograd_8")
    with pytest.raises(ValueError, match="amx: not on this processor, of floats"):
        convolution_forward(False, (1, 6, 7, 16, 16, 1), 0, 0, (1, 1, 1), 0, "amx")


def test_what_is_no_number_stays_so_in_bf16(in_the_core: list[Any]) -> None:
    x, gradient = (tensor.bfloat16() for tensor in tensors((2, 16, 6, 7), 16))
    with torch.no_grad():
        x.view(torch.int16)[1, 3, 2, 2] = 0x7FFF  # a NaN that rounding up would turn into -0
    conv = layer(16, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y = convolve(conv, x.requires_grad_())
    y.backward(gradient)
    assert in_the_core
    assert y[1].isnan().any()
    assert y[0].isfinite().all()
    assert conv.weight.grad is not None
    assert conv.weight.grad.isnan().any()


ASKED = Convolution(32, 32, 6, 7, 256, 1, torch.float32)


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_choice, "_answers", {})
    monkeypatch.setattr(convolution_choice, "_measured", {})


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Convolution]:
    """What was timed; the core is the faster one for floats alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    another_process(monkeypatch)
    asked: list[Convolution] = []

    def rates(of: Convolution) -> dict[str, float]:
        asked.append(of)
        return {"torch": 100.0, "winograd_8": 150.0 if of.dtype is torch.float32 else 102.0}

    monkeypatch.setattr(convolution_choice, "_rates", rates)
    return asked


def test_the_faster_one_is_taken_measured_once_and_kept(
    timed: list[Convolution], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert is_core_faster(ASKED)
        assert not is_core_faster(ASKED._replace(dtype=torch.bfloat16)), "2 % is noise"
    assert timed == [ASKED, ASKED._replace(dtype=torch.bfloat16)]
    another_process(monkeypatch)
    assert convolution_choice.description() == ""
    assert is_core_faster(ASKED)
    assert len(timed) == 2
    assert measured_choices.user_cache(convolution_choice.FILE).exists()
    assert convolution_choice.description().startswith(
        "; 3x3 convolutions: winograd_8, by boards/s (torch 100, winograd_8 150;")


def test_a_run_goes_on_as_it_began_whatever_the_cache_says(
    timed: list[Convolution], monkeypatch: pytest.MonkeyPatch
) -> None:
    bf16 = ASKED._replace(dtype=torch.bfloat16)
    assert (is_core_faster(ASKED), is_core_faster(bf16)) == (True, False)
    of_run = {key: not by_core for key, by_core in convolution_choice.answers().items()}
    assert len(of_run) == 2
    another_process(monkeypatch)
    convolution_choice.adopt(of_run)
    assert (is_core_faster(ASKED), is_core_faster(bf16)) == (False, True)
    assert len(timed) == 2
    assert convolution_choice.answers() == of_run
    assert convolution_choice.description() == "", "nothing was measured here"


def test_of_two_that_measured_at_once_the_first_one_is_right(timed: list[Convolution]) -> None:
    other = measured_choices.MeasuredChoice("torch", {"torch": 100.0, "winograd_8": 90.0}, "2026-11-30", "boards/s")

    def measured_meanwhile(of: Convolution) -> dict[str, float]:
        timed.append(of)
        measured_choices.keep_choice(
            measured_choices.user_cache(convolution_choice.FILE), convolution_choice._key(of), other)
        return {"torch": 100.0, "winograd_8": 150.0}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(convolution_choice, "_rates", measured_meanwhile)
        assert not is_core_faster(ASKED)


def test_a_large_layer_is_timed_on_fewer_boards(timed: list[Convolution]) -> None:
    assert is_core_faster(Convolution(256, 256, 19, 19, 2048, 2, torch.float32))
    assert is_core_faster(Convolution(64, 64, 9, 9, 2048, 1, torch.float32))
    assert [of.boards for of in timed] == [2 * LEAST_BOARDS, TIMED_WORK // (9 * 64 * 64 * 81)]


def test_a_small_layer_is_not_timed(timed: list[Convolution], monkeypatch: pytest.MonkeyPatch) -> None:
    small = ASKED._replace(boards=8)
    for is_fastest in (True, False):
        monkeypatch.setattr(convolution_choice, "core_floats_are_fastest", lambda is_fastest=is_fastest: is_fastest)
        assert is_core_faster(small) == is_fastest
        assert not is_core_faster(small._replace(dtype=torch.bfloat16))
    assert not is_core_faster(ASKED._replace(dtype=torch.float64))
    assert not timed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_are_timed_on_the_layer_that_was_asked_for(dtype: torch.dtype) -> None:
    rates = convolution_choice._rates(Convolution(16, 32, 5, 6, 8, 1, dtype))
    assert set(rates) == {"torch", core_convolution.WAY[dtype]}
    assert all(rate > 0 for rate in rates.values())
