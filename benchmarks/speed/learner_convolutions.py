"""A gradient step in floats on one core, by turns: 3x3 convolutions by the core, and torch's.

    taskset -c 0 python -m benchmarks.speed.learner_convolutions [--record]

Where the core's are not used, as on processors with AVX-512, both are torch's.
"""

from functools import partial

import torch

from benchmarks.lib import measure_networks
from benchmarks.speed.learner_norms import NETWORKS, compare
from shusaku.common.network import convolution

COMMAND = "taskset -c 0 python -m benchmarks.speed.learner_convolutions --record"


def main() -> None:
    torch.set_num_threads(1)
    measure_networks(__doc__, "learner_convolutions.jsonl", COMMAND, NETWORKS,
                     partial(compare, convolution, ("core_ms", "torch_ms")))


if __name__ == "__main__":
    main()
