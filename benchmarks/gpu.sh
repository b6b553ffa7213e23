#!/usr/bin/env bash
# What a GPU is worth here, in at most 9 minutes: the inference server beside the network alone, the learner's step
# beside a bare compiled one, and both on one GPU.  Prints a table and what does not fit; --record keeps it.
#
#   benchmarks/gpu.sh [--record]
#   make test-gpu            # before: what only a GPU can show
set -euo pipefail
cd "$(dirname "$0")/.."
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/shusaku/inductor}"
exec timeout 540 .venv/bin/python -m benchmarks.speed.gpu "$@"
