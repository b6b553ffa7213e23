"""The methods that the ablation compares, as settings of connect four."""

# AlphaZero as published where it is about the method (PUCT, noise, z, every move of a game a row, heads of two and one
# filters), and the tower, openings and learner that the preset had when the ablation began, which all of them share:
# what it has learned since would make new rows another table.
PLAIN = (
    "learner.targets=[policy,value]", "learner.root_value_share=0", "learner.value_lambda=0",
    "learner.schedule=constant", "learner.learning_rate=0.002", "learner.max_grad_norm=4",
    "learner.soft_policy_weight=8",
    "search=puct", "search.simulations=64", "search.proven_results=false", "search.temperature_plies=12",
    "replay.surprise_weight=0", "network.policy_filters=2", "network.value_filters=1",
)
METHODS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "gumbel": ("search=gumbel", "search.simulations=32", "search.proven_results=false"),
    "gumbel, values as they are": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "search.rescale_values=false",
        "search.value_scale=0.5"),
    "playout caps": ("self_play.cheap_share=0.75", "self_play.cheap_simulations=16", "search.simulations=96"),
    "proven results": ("search.proven_results=true",),
    "symmetric cache": ("search.symmetric_cache=true",),
    "auxiliary heads": ("learner.targets=[policy,value,short_term,soft_policy,reply,moves_left]",),
    "surprise": ("replay.surprise_weight=0.5",),
    "wide heads": ("network.policy_filters=32", "network.value_filters=8"),
    "gumbel, surprise": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "replay.surprise_weight=0.5"),
    "gumbel, surprise, wide heads": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "replay.surprise_weight=0.5",
        "network.policy_filters=32", "network.value_filters=8"),
    "gumbel, values as they are, surprise": (
        "search=gumbel", "search.simulations=32", "search.proven_results=false", "search.rescale_values=false",
        "search.value_scale=0.5", "replay.surprise_weight=0.5"),
}
