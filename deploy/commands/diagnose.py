"""`shusaku diagnose run.dir=…`: what limits this run's learning, and the setting that would help most."""

import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.deploy.diagnosis.finding import Finding, Verdict
from shusaku.deploy.diagnosis.game_facts import GameFacts, readable
from shusaku.deploy.diagnosis.metric_series import MetricSeries
from shusaku.deploy.diagnosis.rules import RunFacts, judge
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.run_games import games_of_run
from shusaku.deploy.run.saved_config import find_config, holds_run

NEWEST = 4000  # games that are looked at
WINDOW = 40_000  # games that losses are measured on some of: the newest and older ones
LEAST = {"games": 500, "gradient steps": 500, "seconds of training": 120}  # from which a run can be judged
WIDTH = 110  # of the text


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the findings, those with an advice first, and returns them.

    UsageError if there is no run, if it does not play against itself, or if it is too young.
    """
    directory = Path(config.run.dir)
    if not holds_run(directory):
        raise UsageError(f"run.dir={directory}: holds no run; name the directory of one")
    saved, note = find_config(directory)
    if note:
        print(note, file=sys.stderr)
    for section, setting in (("dataset", "records"), ("reinforce", "enabled"), ("value", "enabled")):
        if (saved.get(section) or {}).get(setting):
            raise UsageError(f"run.dir={directory}: learns from {section}, and diagnose judges self-play; its losses "
                             "on unseen games are in TensorBoard")
    series = MetricSeries(directory / "metrics.jsonl")
    _check_age(directory, series)
    chosen = find_weights(config, "run.dir", config.run.dir)
    with games_of_run(config, WINDOW) as data:
        window = list(data)
    records = list(readable(window[-NEWEST:]))
    if not records:
        raise UsageError(f"run.dir={directory}: its window is empty; start the run once more, and ask again")
    from shusaku.deploy.diagnosis.fit import measure_fit  # imports torch, which refusals need not

    test_share = float(saved["replay"].get("test_share", 0.0))
    fit = measure_fit(chosen.game, chosen.network, chosen.weights, window, test_share)
    findings = judge(RunFacts(saved, series, GameFacts.of(chosen.game, records), fit))
    print(f"{directory}: {series.seconds / 60:.0f} minutes of training, {series.step:,} steps, the newest "
          f"{len(records):,} games")
    print(_text(findings))
    return {"run_dir": str(directory), "minutes": series.seconds / 60, "step": series.step, "games": len(records),
            "findings": [finding.to_json() for finding in findings]}


def _check_age(directory: Path, series: MetricSeries) -> None:
    """UsageError with how much longer it needs if it is too young."""
    there = dict(zip(LEAST, (series.last("self_play", "games") or 0, series.step, series.seconds), strict=True))
    if all(there[name] >= least for name, least in LEAST.items()):
        return
    reached = ", ".join(f"{there[name]:,.0f} of {least:,} {name}" for name, least in LEAST.items())
    # What there is nothing of has no pace: the rest says how much longer at least, and never less than as long again.
    factors = [least / there[name] if there[name] else 2.0 for name, least in LEAST.items()]
    more = max(1.0, (max(factors) - 1) * series.seconds / 60)
    longer = (f"it needs {more:.0f} more minutes at its pace" if all(there.values())
              else f"it needs at least {more:.0f} more minutes")
    raise UsageError(f"run.dir={directory}: is too young to be judged ({reached}); {longer}")


def _text(findings: list[Finding]) -> str:
    """Those with an advice first, each with its setting and reason."""
    lines: list[str] = []
    for verdict in (Verdict.ADVICE, Verdict.UNKNOWN, Verdict.GOOD):
        for finding in findings:
            if finding.verdict is verdict:
                lines += wrap(f"{finding.topic}: {finding.measured}", WIDTH, initial_indent=f"{verdict:<8}",
                              subsequent_indent=8 * " ")
                if finding.setting:
                    lines += wrap(f"{finding.setting}: {finding.reason}", WIDTH, initial_indent=8 * " " + "-> ",
                                  subsequent_indent=11 * " ")
    return "\n".join(lines)
