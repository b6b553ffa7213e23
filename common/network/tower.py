"""The tower as plain arrays: names, shapes, first values, and batch norms folded away.

Nothing here needs torch, so a self-play process that evaluates with OpenVINO never imports it.  `common.network` is
the same tower as a torch module; the names and shapes below are those of its state_dict.

    stem    3x3 convolution, norm, ReLU
    blocks  two 3x3 convolutions with norms, a skip, ReLU; with `network.squeeze`, the second one's y of each channel
            becomes y * sigmoid(g) + h, where g and h [F] follow from the means of all channels over the cells:
            linear, ReLU, linear (Hu et al. 2018, "Squeeze-and-Excitation Networks"; the h is lc0's: tf/tfprocess.py)
    policy  1x1 convolution, norm, ReLU, linear to the actions; or, with `planes`, one linear layer for all cells, from
            a cell to its actions K * cell ... K * cell + K - 1 (AlphaZero 2018, supplement, "Architecture")
    value   1x1 convolution, norm, ReLU, linear, ReLU, linear to one number, tanh

or, with `network.tower=plain`, without norms,

    stem    5x5 convolution, ReLU
    layers  a 3x3 convolution, ReLU
    policy  1x1 convolution to the K = A // (H W) actions of each cell, K * cell ... K * cell + K - 1, and for the last
            A % (H W) actions, such as the pass, which have no cell, linear from the mean of the features over the
            cells; a bias for each action
    value   3x3 convolution, ReLU, 1x1 convolution, linear, ReLU, linear to one number, tanh

and, where `learner.publish_heads` asks for them,

    ownership  1x1 convolution to one number a cell, tanh
    score      as value without tanh, times SCORE_SCALE: points

Sources: AlphaGo Zero (2017), Methods, "Neural network architecture"; plain: AlphaGo (2016), Methods, "Neural network
architecture", which has no pass.
Letters: C x H x W planes of the observation, F filters, A actions.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError

Shape = tuple[int, ...]
Tensors = dict[str, NDArray[np.float32]]

NORM_EPSILON = 1e-5  # torch's default for batch norms
PLAYING_HEADS = ("policy", "value")  # that a search asks for, and every evaluator answers
HEADS = ("ownership", "score")  # that may be published beside these
SCORE_SCALE = 20.0  # of the score head's output, in points (KataGo: python/model_pytorch.py, scoremean_multiplier)
OUTPUT_SCALE = 0.1  # of the last layers' first values: the first priors are nearly uniform, the first values nearly 0


@dataclass(frozen=True, slots=True)
class TowerShape:
    """Everything that decides the sizes of the tensors."""

    planes: tuple[int, int, int]  # C, H, W
    num_actions: int
    network: NetworkConfig
    heads: tuple[str, ...] = ()  # of HEADS

    @property
    def is_plain(self) -> bool:
        """Whether the tower is AlphaGo's: no skips, no norms."""
        return self.network.tower == "plain"

    @property
    def layers(self) -> list[str]:
        """The 3x3 convolutions of the tower, in their order."""
        blocks = range(self.network.blocks)
        if self.is_plain:
            return [f"layers.{i}" for i in blocks]
        return [f"blocks.{i}.{half}" for i in blocks for half in ("first", "second")]

    @property
    def cell_actions(self) -> int:
        """K of a plain tower: actions of each cell; the others have none."""
        (_, h, w) = self.planes
        if self.num_actions < h * w:
            raise UsageError(f"network.tower=plain: the game has {self.num_actions} actions on {h * w} cells, and this "
                             "tower's policy has at least one for each cell; use network.tower=residual")
        return self.num_actions // (h * w)

    def head_shapes(self, rows: int) -> dict[str, Shape]:
        """What the further heads answer: ownership [S, H, W], score [S]."""
        (_, h, w) = self.planes
        shapes: dict[str, Shape] = {"ownership": (rows, h, w), "score": (rows,)}
        return {head: shapes[head] for head in self.heads}

    @property
    def policy_output(self) -> Shape:
        """Outputs and inputs of the policy's last layer."""
        (_, h, w), n = self.planes, self.network
        if n.policy_head == "linear":
            return self.num_actions, n.policy_filters * h * w
        if self.num_actions % (h * w):
            raise UsageError(f"network.policy_head={n.policy_head}: the {self.num_actions} actions of the game are not "
                             f"equally many for each of its {h * w} cells; use network.policy_head=linear")
        return self.num_actions // (h * w), n.policy_filters


def tensor_shapes(tower: TowerShape) -> dict[str, Shape]:
    """Name -> shape of every tensor of the tower with its policy and value head, and its further heads."""
    (c, h, w), n = tower.planes, tower.network
    if tower.is_plain:
        return _plain_shapes(tower)
    f = n.filters
    shapes = _normed("stem", (f, c, 3, 3))
    for i in range(n.blocks):
        shapes |= _normed(f"blocks.{i}.first", (f, f, 3, 3)) | _normed(f"blocks.{i}.second", (f, f, 3, 3))
        if n.squeeze:
            shapes |= _linear(f"blocks.{i}.squeeze", f, n.squeeze) | _linear(f"blocks.{i}.excite", n.squeeze, 2 * f)
    shapes |= _normed("heads.policy.features", (n.policy_filters, f, 1, 1))
    outputs, inputs = tower.policy_output
    shapes |= _linear("heads.policy.output", inputs, outputs)
    for head in ("value", *tower.heads):
        if head == "ownership":
            shapes |= _convolution("heads.ownership.output", (1, f, 1, 1))
        else:
            shapes |= _normed(f"heads.{head}.features", (n.value_filters, f, 1, 1))
            shapes |= _linear(f"heads.{head}.hidden", n.value_filters * h * w, n.value_hidden)
            shapes |= _linear(f"heads.{head}.output", n.value_hidden, 1)
    return shapes


def _plain_shapes(tower: TowerShape) -> dict[str, Shape]:
    (c, h, w), n, f = tower.planes, tower.network, tower.network.filters
    shapes = _convolution("stem", (f, c, 5, 5))
    for layer in tower.layers:
        shapes |= _convolution(layer, (f, f, 3, 3))
    actions, others = tower.cell_actions, tower.num_actions % (h * w)
    shapes["heads.policy.output.weight"] = (actions, f, 1, 1)
    if others:
        shapes["heads.policy.others.output.weight"] = (others, f)
    shapes["heads.policy.output.bias"] = (tower.num_actions,)
    for head in ("value", *tower.heads):
        if head == "ownership":
            shapes |= _convolution("heads.ownership.output", (1, f, 1, 1))
        else:
            shapes |= _convolution(f"heads.{head}.layer", (f, f, 3, 3))
            shapes |= _convolution(f"heads.{head}.features", (n.value_filters, f, 1, 1))
            shapes |= _linear(f"heads.{head}.hidden", n.value_filters * h * w, n.value_hidden)
            shapes |= _linear(f"heads.{head}.output", n.value_hidden, 1)
    return shapes


def _convolution(name: str, kernel: Shape) -> dict[str, Shape]:
    return {f"{name}.weight": kernel, f"{name}.bias": kernel[:1]}


def _normed(name: str, kernel: Shape) -> dict[str, Shape]:
    shapes = {f"{name}.conv.weight": kernel}
    return shapes | {f"{name}.norm.{k}": kernel[:1] for k in ("weight", "bias", "running_mean", "running_var")}


def _linear(name: str, inputs: int, outputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def initial_tensor(name: str, shape: Shape, seed: int) -> NDArray[np.float32]:
    """The first values of one tensor: a function of its name, its shape and the seed alone.

    He normal before a ReLU (He et al. 2015, section 2.2), small in the output layers, norms at the identity.
    """
    if name.endswith((".norm.weight", ".norm.running_var")):
        return np.ones(shape, np.float32)
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    inputs = math.prod(shape[1:])
    deviation = OUTPUT_SCALE / math.sqrt(inputs) if ".output." in name else math.sqrt(2 / inputs)
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return (random.standard_normal(shape, np.float32) * np.float32(deviation)).astype(np.float32)


def initial_tensors(tower: TowerShape, seed: int) -> Tensors:
    """The tensors of an untrained network."""
    return {name: initial_tensor(name, shape, seed) for name, shape in tensor_shapes(tower).items()}


def evaluation_tensors(tensors: Mapping[str, NDArray[np.float32]], heads: Sequence[str] = ()) -> Tensors:
    """The tensors that an evaluator needs: heads other than policy, value and `heads` serve only training."""
    own = tuple(f"heads.{head}." for head in (*PLAYING_HEADS, *heads))
    return {name: t for name, t in tensors.items() if not name.startswith("heads.") or name.startswith(own)}


def has_head(tensors: Mapping[str, NDArray[np.float32]], head: str) -> bool:
    """Whether the network has it; `learner.targets` may name policy or value alone."""
    return any(name.startswith(f"heads.{head}.") for name in tensors)


def published_heads(tensors: Mapping[str, NDArray[np.float32]]) -> tuple[str, ...]:
    """Those of HEADS that the weights have."""
    return tuple(head for head in HEADS if f"heads.{head}.output.weight" in tensors)


def folded_shapes(tower: TowerShape) -> dict[str, Shape]:
    """Name -> shape of what `fold` returns, in the order of the computation."""
    shapes: dict[str, Shape] = {}
    for name, shape in tensor_shapes(tower).items():
        if name.endswith(".conv.weight"):
            layer = name.removesuffix(".conv.weight")
            shapes |= _convolution(layer, shape)
        elif ".norm." not in name:
            shapes[name] = shape
    return shapes


def quantised_layers(tower: TowerShape) -> list[str]:
    """The convolutions that 8-bit evaluation quantises: those of the blocks, or layers, of the tower."""
    return tower.layers


def fold(tensors: Mapping[str, NDArray[np.float32]]) -> Tensors:
    """The same function with every batch norm (in its evaluation mode) folded into the convolution before it.

    `<layer>.conv.weight` and `<layer>.norm.*` become `<layer>.weight` and `<layer>.bias`; the rest stays.
    """
    folded: Tensors = {}
    for name, tensor in tensors.items():
        if name.endswith(".conv.weight"):
            layer = name.removesuffix(".conv.weight")
            norm = {k: tensors[f"{layer}.norm.{k}"] for k in ("weight", "bias", "running_mean", "running_var")}
            scale = norm["weight"] / np.sqrt(norm["running_var"] + np.float32(NORM_EPSILON))  # [outputs]
            folded[f"{layer}.weight"] = np.ascontiguousarray(tensor * scale[:, None, None, None], np.float32)
            folded[f"{layer}.bias"] = (norm["bias"] - norm["running_mean"] * scale).astype(np.float32)
        elif ".norm." not in name:
            folded[name] = tensor
    return folded
