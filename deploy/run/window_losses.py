"""The loss on games that are never learned from beside the loss on the others: the table at the end of a run."""

from shusaku.deploy.run.text_table import text_table
from shusaku.learner.training_loop import MEASURED, TrainingReport

Losses = dict[str, dict[str, float]]  # target -> test, train and their difference


def window_losses(report: TrainingReport | None) -> Losses:
    """What the learner measured last with `replay.test_share`; empty without it."""
    metrics, (test, train) = report.metrics if report else {}, MEASURED
    names = [name.removeprefix(test) for name in metrics if name.startswith(test)]
    return {name: {"test": metrics[test + name], "train": metrics[train + name],
                   "difference": metrics[test + name] - metrics[train + name]} for name in names}


def window_table(losses: Losses) -> str:
    """A line for each target."""
    header = ["loss", "unseen games", "games learned from", "difference"]
    rows = [[name, f"{loss['test']:.4f}", f"{loss['train']:.4f}", f"{loss['difference']:+.4f}"]
            for name, loss in losses.items()]
    return "\n".join(text_table([header], rows))
