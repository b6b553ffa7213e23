"""The rules of Go in KataGo's words (`kata-get-rules`, `kata-set-rules`), and the core's parameters."""

import json
from dataclasses import dataclass, replace
from typing import Any

from shusaku.common.suggestions import nearest
from shusaku.deploy.protocols.gtp.text import CommandError

KO = {"POSITIONAL": "positional", "SITUATIONAL": "situational", "SIMPLE": "simple"}
BONUSES = {"0": "", "N": "N", "N-1": "N-1"}
UNKNOWN = {  # what the core does not play; the only value that is taken
    "scoring": "AREA", "tax": "NONE", "hasButton": False,
}


@dataclass(frozen=True)
class Rules:
    """What a client may change; all are rules of area scoring."""

    ko: str = "POSITIONAL"  # a key of KO
    suicide: bool = False
    bonus: str = "0"  # for white at a handicap: a key of BONUSES
    friendly_pass: bool = True  # after two passes dead stones are taken off; else the board is scored as it stands

    @property
    def params(self) -> dict[str, int | float | str | bool]:
        """Parameters of the core's game of Go."""
        return {"superko": KO[self.ko], "rules": "tromp_taylor" if self.suicide else "chinese"}

    def to_json(self) -> str:
        """As `kata-get-rules` answers."""
        tree = {"friendlyPassOk": self.friendly_pass, "hasButton": False, "ko": self.ko, "scoring": "AREA",
                "suicide": self.suicide, "tax": "NONE", "whiteHandicapBonus": self.bonus}
        return json.dumps(tree, separators=(",", ":"))


NAMED = {
    "tromp-taylor": Rules(suicide=True, friendly_pass=False),
    "chinese": Rules("SIMPLE", bonus="N"),
    "chinese-ogs": Rules(bonus="N"),
    "chinese-kgs": Rules(bonus="N"),
    "aga": Rules("SITUATIONAL", bonus="N-1"),
    "bga": Rules("SITUATIONAL", bonus="N-1"),
    "new-zealand": Rules("SITUATIONAL", suicide=True),
}
OF_KGS = {"chinese": "chinese-kgs", "aga": "aga", "new_zealand": "new-zealand"}


def rules_of(params: dict[str, int | float | str | bool]) -> Rules:
    """The rules that the network learned by."""
    is_tromp_taylor = params["rules"] == "tromp_taylor"
    ko = next(name for name, superko in KO.items() if superko == params["superko"])
    return Rules(ko, is_tromp_taylor, friendly_pass=not is_tromp_taylor)


def parse_rules(text: str, rules: Rules) -> Rules:
    """The name of rules, or a JSON object of what changes in `rules`; CommandError if they cannot be played."""
    if not text.startswith("{"):
        name = text.lower().replace("_", "-")
        if name not in NAMED:
            raise CommandError(f"unknown rules {text[:40]}: there are {', '.join(NAMED)}; nearest: "
                               f"{nearest(name, NAMED)}")
        return NAMED[name]
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise CommandError("the rules are no JSON object") from None
    for key, value in tree.items():
        rules = change_rule(rules, key, value)
    return rules


def change_rule(rules: Rules, key: str, value: Any) -> Rules:
    """One rule changed; `value` as in JSON.  CommandError if it cannot be."""
    if key in UNKNOWN:
        if value != UNKNOWN[key]:
            raise CommandError(f"{key} {_shown(value)}: only {_shown(UNKNOWN[key])} is played here")
        return rules
    choices: dict[str, tuple[str, Any]] = {  # field, values
        "ko": ("ko", KO), "suicide": ("suicide", (False, True)), "whiteHandicapBonus": ("bonus", BONUSES),
        "friendlyPassOk": ("friendly_pass", (False, True)),
    }
    if key not in choices:
        raise CommandError(f"unknown rule {_shown(key)}: there are {', '.join([*choices, *UNKNOWN])}")
    field, values = choices[key]
    if isinstance(value, bool) != (False in values) or isinstance(value, dict | list) or value not in values:
        raise CommandError(f"{key} {_shown(value)}: must be one of {', '.join(_shown(choice) for choice in values)}")
    return replace(rules, **{field: value})


def _shown(value: Any) -> str:
    return (value if isinstance(value, str) else json.dumps(value))[:40]
