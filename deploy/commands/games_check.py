"""`shusaku games check NAME`: the contract of a game, rule by rule, on random games."""

from typing import Any

from shusaku.common._core import external_names
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.contract import RULES, check_game
from shusaku.common.external.loader import load_game
from shusaku.common.suggestions import nearest
from shusaku.deploy.commands.plain_options import PlainOptions
from shusaku.deploy.run.game_parameters import game_choices, make_game, parse_parameters


def run(arguments: list[str], as_json: bool) -> dict[str, Any]:
    """Prints each rule; {"game", "games", "plies", "rules": [{rule, text, violation}]}.  RunError if one is broken."""
    parser = PlainOptions(prog="shusaku games check", description="Check that a game keeps the contract.")
    parser.add_argument("game", metavar="NAME", help="a game of `shusaku games`, or module:Class")
    parser.add_argument("--param", metavar="k=v", action="append", default=[], help="a parameter of the rules")
    parser.add_argument("--games", metavar="N", type=int, default=50, help="random games that are played (50)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of the random games (1)")
    asked = parser.parse_args(arguments)
    name, assignments = _name_and_parameters(asked.game)
    if asked.games < 1:
        raise UsageError(f"--games {asked.games}: must be at least 1")
    params = parse_parameters(name, [*assignments, *asked.param])
    game = make_game(name, params, "--param")
    rules = load_game(name, params).rules if name in external_names() else None
    report = check_game(game, asked.games, asked.seed, rules)

    rows = []
    for rule, text in RULES.items():
        violation, is_checked = report.violations.get(rule), rule not in report.unchecked
        rows.append({"rule": rule, "text": text, "violation": violation, "is_checked": is_checked})
        if not as_json:
            print(f"{'BROKEN' if violation is not None else 'ok' if is_checked else '-':<8}{text}")
            if violation is not None:
                print(f"        {' '.join(violation.split())}")
    if not as_json:
        print(f"{report.games} random games of {report.plies:,} plies")
    result = {"game": name, "params": game.params, "games": report.games, "plies": report.plies, "rules": rows}
    if not report.is_kept:
        first = next(iter(report.violations))
        raise RunError(f"{asked.game} breaks {len(report.violations)} of {len(rows)} rules, first this one: "
                        f"{RULES[first]}; {report.violations[first]}", result)
    return result


def _name_and_parameters(word: str) -> tuple[str, list[str]]:
    """The game that the word means, and the parameters of the rules that it says; UsageError if there is none."""
    if word in game_choices():
        return word, []
    if word.startswith("open_spiel:"):
        return "open_spiel", [f"name={word.partition(':')[2]}"]
    if ":" in word:
        return "python", [f"entry={word}"]
    raise UsageError(f"{word}: no such game; nearest: {nearest(word, game_choices())}; there are "
                     f"{', '.join(game_choices())}, open_spiel:NAME, and module:Class for a game of your own")
