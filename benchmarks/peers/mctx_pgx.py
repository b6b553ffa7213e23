"""Self-play of mctx's search on pgx's games, one process on one core: the peers' own packages, our network's shape.

    python benchmarks/peers/mctx_pgx.py --game connect_four --filters 64 --blocks 5 --seconds 10

Everything is one compiled XLA program: `games` games side by side, a search of `simulations` for each, a move each, and
finished games begin anew.  The last line is JSON: searches, evaluations and finished games a second.
"""

import argparse
import json
import os
import time
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect_four", help="as pgx calls it: connect_four, go_9x9, ...")
    parser.add_argument("--filters", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--simulations", type=int, default=64)
    parser.add_argument("--games", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    print(json.dumps(measure(options)))


def measure(options: argparse.Namespace) -> dict[str, float]:
    import jax
    import pgx
    from pgx.experimental import auto_reset

    env = pgx.make(options.game)
    network, parameters = tower(env, options.filters, options.blocks)
    search = searcher(env, network, options.simulations)
    play = jax.vmap(auto_reset(env.step, env.init))

    @jax.jit
    def move(key: Any, state: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, options.games + 1)
        state = play(state, search(parameters, keys[0], state), keys[1:])
        return state, state.terminated.sum()

    key = jax.random.PRNGKey(1)
    state = jax.vmap(env.init)(jax.random.split(key, options.games))
    state, _ = move(key, state)  # compiles
    jax.block_until_ready(state)
    moves, ended, begin = 0, 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < options.seconds:
        key, now = jax.random.split(key)
        state, terminated = move(now, state)
        ended += int(terminated)
        moves += options.games
    return {"searches_per_s": moves / spent, "evaluations_per_s": moves * (options.simulations + 1) / spent,
            "games_per_s": ended / spent}


def tower(env: Any, filters: int, blocks: int) -> tuple[Any, Any]:
    """The residual tower of `common.network.tower` with its norms folded, as XLA likes it; its random parameters."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    height, width, planes = env.observation_shape
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 4 + 2 * blocks + 8))

    def convolution(inputs: int, outputs: int, size: int) -> dict[str, Any]:
        kernel = jax.random.normal(next(keys), (size, size, inputs, outputs)) * (2 / (size * size * inputs)) ** 0.5
        return {"kernel": kernel, "bias": jnp.zeros(outputs)}

    def linear(inputs: int, outputs: int) -> dict[str, Any]:
        return {"kernel": jax.random.normal(next(keys), (inputs, outputs)) * (2 / inputs) ** 0.5,
                "bias": jnp.zeros(outputs)}

    parameters = {
        "stem": convolution(planes, filters, 3),
        "blocks": [(convolution(filters, filters, 3), convolution(filters, filters, 3)) for _ in range(blocks)],
        "policy": (convolution(filters, 2, 1), linear(2 * height * width, env.num_actions)),
        "value": (convolution(filters, 1, 1), linear(height * width, 64), linear(64, 1)),
    }

    def convolve(x: Any, layer: dict[str, Any]) -> Any:
        y = lax.conv_general_dilated(x, layer["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return y + layer["bias"]

    def apply(layer: dict[str, Any], x: Any) -> Any:
        return x @ layer["kernel"] + layer["bias"]

    def network(p: dict[str, Any], observation: Any) -> tuple[Any, Any]:
        """[B, H, W, C] -> logits [B, A], values [B]."""
        x = jax.nn.relu(convolve(observation.astype(jnp.float32), p["stem"]))
        for first, second in p["blocks"]:
            x = jax.nn.relu(x + convolve(jax.nn.relu(convolve(x, first)), second))
        flat = (len(observation), -1)
        logits = apply(p["policy"][1], jax.nn.relu(convolve(x, p["policy"][0])).reshape(flat))
        hidden = jax.nn.relu(apply(p["value"][1], jax.nn.relu(convolve(x, p["value"][0])).reshape(flat)))
        return logits, jnp.tanh(apply(p["value"][2], hidden))[:, 0]

    return network, parameters


def searcher(env: Any, network: Any, simulations: int) -> Any:
    """Gumbel MuZero's policy with the game itself as the model, as pgx's AlphaZero example uses it."""
    import jax
    import jax.numpy as jnp
    import mctx

    step = jax.vmap(env.step)
    lowest = jnp.finfo(jnp.float32).min

    def recurrent(p: Any, key: Any, action: Any, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = step(state, action)
        logits, value = network(p, state.observation)
        logits = jnp.where(state.legal_action_mask, logits - logits.max(axis=-1, keepdims=True), lowest)
        return mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(len(mover)), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        ), state

    def search(p: Any, key: Any, state: Any) -> Any:
        logits, value = network(p, state.observation)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        return mctx.gumbel_muzero_policy(
            p, key, root, recurrent, simulations, invalid_actions=~state.legal_action_mask,
            qtransform=mctx.qtransform_completed_by_mix_value,
        ).action

    return search


if __name__ == "__main__":
    main()
