"""A larger network computes what the smaller one does, and learns with all of its weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.growth import grow, too_small
from shusaku.common.network.network import Network, load_tensors, named_tensors, tensors_of
from shusaku.common.network.targets import make_targets

PLANES, ACTIONS = (3, 5, 4), 41
BASE = NetworkConfig(filters=6, blocks=2, policy_filters=2, value_filters=1, value_hidden=8)
TARGETS = ["policy", "value", "soft_policy", "short_term", "moves_left", "ownership", "score"]


def network(config: NetworkConfig, targets: list[str] = TARGETS, seed: int = 5) -> Network:
    return Network(PLANES, ACTIONS, config, make_targets(LearnerConfig(targets=targets)), seed)


def trained(config: NetworkConfig, targets: list[str] = TARGETS) -> Network:
    """With other numbers in each tensor than an untrained one, and statistics of norms above zero."""
    made = network(config, targets)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, tensor in named_tensors(made):
            noise = torch.rand_like(tensor) if name.endswith("running_var") else torch.randn_like(tensor)
            tensor.add_(0.1 * noise)
    return made.eval()


def grown(small: Network, config: NetworkConfig, targets: list[str] = TARGETS) -> Network:
    large = network(config, targets, seed=6)
    load_tensors(large, grow(tensors_of(small), tensors_of(large)))
    return large.eval()


@pytest.mark.parametrize(("small", "large"), [
    (BASE, replace(BASE, filters=9)),
    (BASE, replace(BASE, blocks=4)),
    (BASE, replace(BASE, policy_filters=3, value_filters=4, value_hidden=20)),
    (replace(BASE, squeeze=3), replace(BASE, squeeze=5, filters=8, blocks=3)),
    (BASE, BASE),
    (replace(BASE, tower="plain"), replace(BASE, tower="plain", filters=10, blocks=5, value_hidden=9)),
], ids=["wider", "deeper", "heads", "squeeze", "the same", "plain"])
def test_all_heads_answer_the_same(small: NetworkConfig, large: NetworkConfig) -> None:
    before = trained(small).double()
    after = grown(before, large).double()
    assert not too_small(small, large)
    x = torch.rand(7, *PLANES, dtype=torch.float64)
    with torch.no_grad():
        expected, found = before(x), after(x)
    assert expected.keys() == found.keys()
    for name, answer in expected.items():
        torch.testing.assert_close(found[name], answer, rtol=1e-6, atol=1e-7, msg=name)


def test_everything_learns_within_a_few_steps() -> None:
    """Weights between old and new parts begin at zero and have a gradient; those behind them, from the next step on."""
    large = grown(trained(replace(BASE, squeeze=3)), replace(BASE, squeeze=4, filters=9, blocks=3)).train()
    large.double()  # where small steps are seen
    begin = {name: parameter.detach().clone() for name, parameter in large.named_parameters()}
    optimizer = torch.optim.SGD(large.parameters(), 0.05)
    x = torch.rand(16, *PLANES, dtype=torch.float64)
    for _ in range(4):
        optimizer.zero_grad()
        sum((answer - 0.3).square().mean() for answer in large(x).values()).backward()  # type: ignore[union-attr]
        optimizer.step()
    still = [name for name, parameter in large.named_parameters() if torch.equal(parameter, begin[name])]
    assert still == []


def test_a_new_head_begins_untrained_and_an_old_one_is_left_out() -> None:
    small = trained(BASE, ["policy", "value", "moves_left"])
    large = network(replace(BASE, filters=8), ["policy", "value", "score"], seed=6)
    tensors = grow(tensors_of(small), tensors_of(large))
    assert tensors.keys() == tensors_of(large).keys()
    assert np.array_equal(tensors["heads.score.hidden.weight"], tensors_of(large)["heads.score.hidden.weight"])


def test_what_does_not_fit_is_named() -> None:
    wanted = replace(BASE, filters=4, blocks=9, squeeze=2, policy_head="planes")
    assert too_small(BASE, wanted) == ["filters", "policy_head", "squeeze"]
    assert too_small(BASE, wanted, {"policy"}) == ["filters", "squeeze"]
