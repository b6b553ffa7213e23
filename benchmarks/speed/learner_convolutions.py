"""A gradient step on one core, by turns: 3x3 convolutions by the core, and torch's; in bf16 where the processor has it.

    taskset -c 0 python -m benchmarks.speed.learner_convolutions [--record]

The core's are taken here whether they are faster or not.
"""

from functools import partial
from unittest.mock import patch

import torch

from benchmarks.lib import measure_networks
from benchmarks.speed.learner_norms import NETWORKS, compare
from shusaku.common.network import convolution

COMMAND = "taskset -c 0 python -m benchmarks.speed.learner_convolutions --record"


def main() -> None:
    torch.set_num_threads(1)
    with patch.object(convolution, "is_core_faster", return_value=True):
        measure_networks(__doc__, "learner_convolutions.jsonl", COMMAND, NETWORKS,
                         partial(compare, convolution, ("core_ms", "torch_ms")))


if __name__ == "__main__":
    main()
