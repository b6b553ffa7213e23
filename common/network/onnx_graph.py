"""A network as an ONNX graph, straight from its weights: norms folded, any number of positions at once.

    planes [batch, C, H, W]  ->  policy [batch, A] logits of all actions, legal or not
                                 value [batch] the expected outcome, -1 to 1
                                 and one output for each other head that the weights have

A network with the policy or the value alone has that output alone.

Everything is for the player to move.  The package onnx is an extra: `pip install 'shusaku[onnx]'`.
"""

import json
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from shusaku.common.messages import Weights
from shusaku.common.network.game_targets import MOVES_SCALE
from shusaku.common.network.tower import SCORE_SCALE, TowerShape
from shusaku.common.network.weights import folded_tensors

OPSET, IR = 17, 8  # read by onnxruntime 1.12 and later
BATCH = "batch"
SCALES = {"score": SCORE_SCALE, "moves_left": MOVES_SCALE}  # of heads whose output is scaled, as in game_targets
MEANINGS = {
    "policy": "logits of all actions, legal or not",
    "value": "expected outcome for the player to move, -1 to 1",
    "win_draw_loss": "logits of won, drawn and lost for the player to move",
    "short_term": "outcomes that the searches 64, 21 and 7 plies ahead expect, on 19x19",
    "soft_policy": "logits of the policy flattened to pi^(1/4)",
    "reply": "logits of the opponent's next policy",
    "moves_left": "plies until the end",
    "ownership": "owner of each cell at the end: 1 the player to move, -1 the other one",
    "score": "points at the end for the player to move",
}


def onnx_model(weights: Weights, tower: TowerShape) -> onnx.ModelProto:
    """A checked model with its description as metadata; ValueError if the weights belong to another tower."""
    graph = _Graph(folded_tensors(weights, tower), tower, list(weights.tensors))
    graph.build()
    (c, h, w) = tower.planes
    planes = helper.make_tensor_value_info("planes", TensorProto.FLOAT, [BATCH, c, h, w],
                                           f"the observation of {weights.game}: docs/games.md of Shusaku")
    made = helper.make_graph(graph.nodes, f"shusaku_{weights.game}", [planes], graph.outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR,
                              producer_name="shusaku")
    model.doc_string = (f"Plays {weights.game}. Input: planes of positions. Outputs for the player to move: "
                        f"{', '.join(output.name for output in graph.outputs)}.")
    helper.set_model_props(model, _metadata(weights))
    onnx.checker.check_model(model, full_check=True)
    return model


def _metadata(weights: Weights) -> dict[str, str]:
    """What the weights file says, as texts."""
    return {
        **weights.about, "game": weights.game, "params": json.dumps(weights.params, sort_keys=True),
        "network": json.dumps(weights.network, sort_keys=True), "version": str(weights.version),
        "step": str(weights.step), "planes_fingerprint": weights.planes, "weights_sha256": weights.sha256,
    }


class _Graph:
    """Nodes, constants and outputs, which the methods add to; each takes and returns names of values."""

    def __init__(self, tensors: dict[str, NDArray[np.float32]], tower: TowerShape, own: list[str]) -> None:
        """`tensors`: folded; `own`: the names of the weights, among which a head may be missing."""
        self._tensors, self._tower, self._own = tensors, tower, own
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def build(self) -> None:
        """The tower, and each head."""
        x = self._relu(self._convolution("planes", "stem"))
        for layer in self._tower.layers if self._tower.is_plain else ():
            x = self._relu(self._convolution(x, layer))
        for i in range(0 if self._tower.is_plain else self._tower.network.blocks):
            y = self._relu(self._convolution(x, f"blocks.{i}.first"))
            y = self._convolution(y, f"blocks.{i}.second")
            if self._tower.network.squeeze:
                y = self._excite(y, f"blocks.{i}")
            x = self._relu(self._node("Add", [x, y], f"blocks.{i}"))
        heads = dict.fromkeys(name.split(".")[1] for name in self._own if name.startswith("heads."))
        for head in sorted(heads, key=list(MEANINGS).index):
            self._head(x, head)

    def _excite(self, x: str, block: str) -> str:
        """Squeeze and excitation of `network.Block`."""
        y = self._node("ReduceMean", [x], f"{block}.means", axes=[2, 3], keepdims=0)  # [B, F]
        y = self._linear(self._relu(self._linear(y, f"{block}.squeeze")), f"{block}.excite")
        y = self._reshape(y, [0, 2, -1, 1, 1])  # [B, 2, F, 1, 1]: gate and shift
        halves = [f"{block}.gate", f"{block}.shift"]
        for number, half in enumerate(halves):
            index = self._constant(f"{half}.index", np.int64(number))
            self._node("Gather", [y, index], half, axis=1)  # [B, F, 1, 1]
        gate = self._node("Sigmoid", halves[:1], f"{block}.sigmoid")
        return self._node("Add", [self._node("Mul", [x, gate], f"{block}.gated"), halves[1]], f"{block}.excited")

    def _head(self, x: str, head: str) -> None:
        """The parts that a head has tell of which class it is; see `common.network.heads`."""
        (_, h, w), name = self._tower.planes, f"heads.{head}"
        shape: list[str | int]
        if f"{name}.hidden.weight" in self._tensors:
            y, shape = self._numbers(x, name)
        elif self._tower.is_plain and head != "ownership":
            y, shape = self._plain_policy(x, name), [BATCH, self._tower.num_actions]
        elif f"{name}.features.weight" in self._tensors:
            y, shape = self._policy(x, name), [BATCH, self._tower.num_actions]
        else:
            y, shape = self._reshape(self._convolution(x, f"{name}.output"), [0, h, w]), [BATCH, h, w]
        if head in ("value", "short_term", "ownership"):
            y = self._node("Tanh", [y], f"{name}.tanh")
        if head == "moves_left":
            y = self._node("Softplus", [y], f"{name}.softplus")
        if head in SCALES:
            y = self._node("Mul", [y, self._constant(f"{name}.scale", np.float32(SCALES[head]))], f"{name}.points")
        self._node("Identity", [y], head)
        self.outputs.append(helper.make_tensor_value_info(head, TensorProto.FLOAT, shape, MEANINGS[head]))

    def _policy(self, x: str, name: str) -> str:
        """`heads.PolicyHead`."""
        y = self._relu(self._convolution(x, f"{name}.features"))
        if self._tower.network.policy_head != "planes":
            return self._linear(self._reshape(y, [0, -1]), f"{name}.output")
        filters = self._tensors[f"{name}.features.weight"].shape[0]
        y = self._reshape(y, [0, filters, -1])  # [B, P, H * W]
        y = self._node("Transpose", [y], f"{name}.cells", perm=[0, 2, 1])
        matrix = self._constant(f"{name}.output.weight", self._tensors[f"{name}.output.weight"].T)
        y = self._node("MatMul", [y, matrix], f"{name}.product")
        y = self._node("Add", [y, self._constant(f"{name}.output.bias")], f"{name}.output")  # [B, H * W, K]
        return self._reshape(y, [0, -1])

    def _plain_policy(self, x: str, name: str) -> str:
        """`heads.PlainPolicyHead`."""
        filters = self._constant(f"{name}.output.weight")
        y = self._node("Conv", [x, filters], f"{name}.filters")
        y = self._reshape(y, [0, self._tower.cell_actions, -1])  # [B, K, H * W]
        y = self._reshape(self._node("Transpose", [y], f"{name}.cells", perm=[0, 2, 1]), [0, -1])
        if f"{name}.others.output.weight" in self._tensors:
            mean = self._node("ReduceMean", [x], f"{name}.mean", axes=[2, 3], keepdims=0)  # [B, F]
            matrix = self._constant(f"{name}.others.output.weight")
            others = self._node("Gemm", [mean, matrix], f"{name}.others", transB=1)
            y = self._node("Concat", [y, others], f"{name}.actions", axis=1)
        return self._node("Add", [y, self._constant(f"{name}.output.bias")], f"{name}.output")

    def _numbers(self, x: str, name: str) -> tuple[str, list[str | int]]:
        """`heads.NumbersHead`; a single number stands alone."""
        if self._tower.is_plain:
            y = self._convolution(self._relu(self._convolution(x, f"{name}.layer")), f"{name}.features")
        else:
            y = self._relu(self._convolution(x, f"{name}.features"))
        y = self._reshape(y, [0, -1])
        y = self._linear(self._relu(self._linear(y, f"{name}.hidden")), f"{name}.output")
        count = self._tensors[f"{name}.output.bias"].shape[0]
        return (self._reshape(y, [-1]), [BATCH]) if count == 1 else (y, [BATCH, count])

    def _convolution(self, x: str, name: str) -> str:
        pad = self._tensors[f"{name}.weight"].shape[2] // 2
        return self._node("Conv", [x, *self._parameters(name)], name, pads=[pad] * 4)

    def _linear(self, x: str, name: str) -> str:
        return self._node("Gemm", [x, *self._parameters(name)], name, transB=1)

    def _relu(self, x: str) -> str:
        return self._node("Relu", [x], f"{x}.relu")

    def _reshape(self, x: str, shape: list[int]) -> str:
        """0: as it is; -1: what is left."""
        return self._node("Reshape", [x, self._constant(f"{x}.shape", np.array(shape, np.int64))], f"{x}.reshaped")

    def _parameters(self, name: str) -> list[str]:
        return [self._constant(f"{name}.weight"), self._constant(f"{name}.bias")]

    def _constant(self, name: str, value: Any = None) -> str:
        """A constant; by default the tensor of this name."""
        array = np.asarray(self._tensors[name] if value is None else value)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output
