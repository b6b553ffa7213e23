"""One masker for every spelling of a password."""

import pytest

from shusaku.common.masking import mask_override, mask_text, mask_tree

SPELLINGS = {
    "redis://u:pw-1@h:1/0": "redis://u:***@h:1/0",
    "rediss://:pw-1@h?ssl_ca_certs=f": "rediss://:***@h?ssl_ca_certs=f",
    "unix://:pw-1@/tmp/s?db=0": "unix://:***@/tmp/s?db=0",
    "redis://u:pw-1/@pw-1@h/0": "redis://u:***@h/0",  # not encoded as it should be
    "unix:///a?password=pw-1&db=1": "unix:///a?password=***&db=1",
    "redis://h/0?db=1&PASSWORD=pw-1": "redis://h/0?db=1&PASSWORD=***",
    "redis://u:pw-1@h/0?password=pw-1#x": "redis://u:***@h/0?password=***#x",
    "rediss://h/0?ssl_password=pw-1": "rediss://h/0?ssl_password=***",
    "redis://h/0?pass%77ord=pw-1": "redis://h/0?pass%77ord=***",
    "redis://h/0?api_key=pw-1&db=1": "redis://h/0?api_key=***&db=1",
}


@pytest.mark.parametrize(("address", "shown"), SPELLINGS.items())
def test_no_spelling_of_a_password_is_shown(address: str, shown: str) -> None:
    assert mask_text(address) == shown
    assert mask_override(f"replay.url={address}") == f"replay.url={shown}"
    assert mask_tree({"replay": {"url": address, "list": [address]}}) == {"replay": {"url": shown, "list": [shown]}}
    assert "pw-1" not in mask_text(f"{address}: refused; try {address} again")


@pytest.mark.parametrize(("text", "shown"), {
    "REDIS_PASSWORD=pw-1 shusaku train": "REDIS_PASSWORD=*** shusaku train",
    "engine --password=pw-1 --level 3": "engine --password=*** --level 3",
    "engine --auth-token pw-1 x": "engine --auth-token *** x",
    "/bin/e -passphrase pw-1": "/bin/e -passphrase ***",
}.items())
def test_assignments_and_options_in_a_text(text: str, shown: str) -> None:
    assert mask_text(text) == shown


def test_blanks_in_an_address_hide_nothing() -> None:
    assert mask_override("replay.url=redis://u:p w-1@h") == "replay.url=redis://u:***@h"
    assert mask_tree({"url": "redis://h?password=p w-1"}) == {"url": "redis://h?password=***"}


@pytest.mark.parametrize("text", [
    "redis://h:1/0", "a@b", "replay.megabytes=64", "bytes=1&db=2", "game.planes=komi key=value",
    "RAY_AUTH_TOKEN_PATH=F RAY_AUTH_MODE=token", "cat ~/.ray/auth_token)", "token=", "it asks for a token: x",
    "10:30 @ the server",
])
def test_what_holds_no_password_stays(text: str) -> None:
    assert mask_text(text) == text
