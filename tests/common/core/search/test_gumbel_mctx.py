"""Gumbel against mctx, the authors' own search (google-deepmind/mctx, gumbel_muzero_policy), on random trees.

Every action is legal at every node: mctx completes and rescales the values of illegal actions as well, ours only those
of legal ones.  Logits and values are half floats on both sides, as evaluations travel.
"""

import functools
from typing import NamedTuple

import numpy as np
import oracles
import pytest
from external_fixtures import python_game
from reference_search import Random, combine

from shusaku.common._core import SearchBatch
from shusaku.common.config.search import GumbelConfig
from shusaku.common.messages import Evaluation
from shusaku.common.search import search_options, step

ROOTS = 32


class Spot(NamedTuple):
    node: int  # 0 the root; the children of node n are n * width + 1 ... n * width + width
    ply: int


class Bush:
    """A tree in which every node down to `depth` has `width` actions; the leaves' results come from a table."""

    def __init__(self, width: int, depth: int) -> None:
        self.num_actions, self.max_plies = width, depth
        self.nodes = sum(width**d for d in range(depth + 1))
        self.observation_shape, self.uniform_planes = (1, 1, 1), 1

    def start(self):
        return Spot(0, 0)

    def to_play(self, state):
        return state.ply % 2

    def is_terminal(self, state):
        return state.ply == self.max_plies

    def outcome(self, state):
        return outcome_of(state.node)

    def legal_actions(self, state):
        return [] if self.is_terminal(state) else list(range(self.num_actions))

    def play(self, state, action):
        return Spot(state.node * self.num_actions + 1 + action, state.ply + 1)

    def observation(self, state):
        return np.full((1, 1, 1), state.node, np.float32)


def outcome_of(node):
    return int(node * 2654435761 % 2**32 >> 16) % 3 - 1


class Tables(NamedTuple):
    """Scripted evaluations of all nodes of one bush, N of them, for each of B roots."""

    logits: np.ndarray  # [B, N, A] half floats
    values: np.ndarray  # [B, N] half floats, for the player to move


def random_tables(bush, seed, spread):
    random = np.random.default_rng(seed)
    logits = random.normal(0, spread, (ROOTS, bush.nodes, bush.num_actions)).astype(np.float16)
    return Tables(logits, random.uniform(-1, 1, (ROOTS, bush.nodes)).astype(np.float16))


class Scripted:
    """Answers from the tables of one root, and keeps what it was asked."""

    version = 0

    def __init__(self, tables, root):
        self.logits, self.values = tables.logits[root].astype(np.float32), tables.values[root].astype(np.float32)
        self.asked = []

    def __call__(self, leaves):
        nodes = leaves.uniform[:, 0].astype(int)
        self.asked += nodes.tolist()
        return Evaluation(self.logits[nodes].ravel(), self.values[nodes], 0)


def ours(game, tables, config):
    """The result of each root, searched with its number as the seed, and the nodes in the order of their evaluation."""
    for root in range(ROOTS):
        evaluate = Scripted(tables, root)
        batch = SearchBatch(game, search_options(config, symmetries=False), 1, 0)
        batch.begin(0, game.start(), root)
        while not batch.is_done():
            step(batch, evaluate)
        yield batch.result(0), evaluate.asked


def theirs(jax, mctx, bush, tables, config, monkeypatch):
    """mctx's answer, with our draw of the Gumbel noise."""
    jnp = jax.numpy
    logits, values = (jnp.asarray(table.astype(np.float32)) for table in tables)
    outcomes = jnp.asarray([outcome_of(node) for node in range(bush.nodes)], jnp.float32)
    scripts = (logits, values, outcomes)  # not constants of what is compiled, or XLA folds them for a minute
    first_leaf = bush.nodes - bush.num_actions**bush.max_plies
    roots = jnp.arange(ROOTS)

    def recurrent(scripts, key, action, node):
        logits, values, outcomes = scripts
        # Below the leaves mctx goes on, where discount 0 makes all that it finds worth nothing.
        following = jnp.minimum(node * bush.num_actions + 1 + action, bush.nodes - 1)
        is_leaf = (following >= first_leaf) & (node < first_leaf)
        is_below = node >= first_leaf
        following = jnp.where(is_below, node, following)
        return mctx.RecurrentFnOutput(
            reward=jnp.where(is_leaf, -outcomes[following], 0.0),  # for who moved
            discount=jnp.where(is_leaf | is_below, 0.0, -1.0),
            prior_logits=logits[roots, following],
            value=jnp.where(is_leaf | is_below, 0.0, values[roots, following]),
        ), following

    draws = [Random(combine(seed, 1)) for seed in range(ROOTS)]
    noise = np.array([[random.gumbel() for _ in range(bush.num_actions)] for random in draws], np.float32)
    monkeypatch.setattr(jax.random, "gumbel", lambda key, shape, dtype: jnp.asarray(noise))
    root = mctx.RootFnOutput(prior_logits=logits[:, 0], value=values[:, 0], embedding=jnp.zeros(ROOTS, jnp.int32))
    search = functools.partial(
        mctx.gumbel_muzero_policy, recurrent_fn=recurrent,
        num_simulations=config.simulations, max_num_considered_actions=config.considered_actions,
        gumbel_scale=config.gumbel_scale,
        qtransform=functools.partial(
            mctx.qtransform_completed_by_mix_value, value_scale=config.value_scale,
            maxvisit_init=config.maxvisit_init, rescale_values=config.rescale_values,
        ),
    )
    return jax.jit(search)(scripts, jax.random.PRNGKey(0), root)


# Seconds of compilation each, so a few that differ in everything.
@pytest.mark.parametrize(("width", "depth", "simulations", "considered", "settings"), [
    (3, 6, 50, 16, {}),  # all actions, and ends of games
    (9, 3, 1, 4, {}),
    (9, 3, 16, 4, {"gumbel_scale": 0.0}),
    (9, 3, 64, 16, {"value_scale": 1.0, "maxvisit_init": 10.0, "rescale_values": False}),
    (20, 2, 7, 16, {}),  # too few for the first phase
    (20, 2, 120, 16, {"gumbel_scale": 0.5}),
])
def test_it_is_the_search_of_its_authors(width, depth, simulations, considered, settings, monkeypatch):
    jax, mctx = oracles.package("jax"), oracles.package("mctx")
    bush = Bush(width, depth)
    config = GumbelConfig(simulations=simulations, considered_actions=considered, cache=0,
                          **settings)
    tables = random_tables(bush, seed=simulations, spread=1.5)
    expected = theirs(jax, mctx, bush, tables, config, monkeypatch)
    visits = np.asarray(expected.search_tree.summary().visit_counts)
    grown = np.asarray(expected.search_tree.embeddings)  # [B, 1 + simulations]: nodes are numbered by their simulation
    first_leaf = bush.nodes - width**depth
    for b, (result, asked) in enumerate(ours(python_game(Bush, width=width, depth=depth), tables, config)):
        assert asked == [node for node in grown[b].tolist() if node < first_leaf]
        assert result.visits.tolist() == visits[b].tolist()
        assert result.action == int(expected.action[b])
        np.testing.assert_allclose(result.policy, np.asarray(expected.action_weights[b]), atol=1e-5)
