"""Nonsense from a page is refused with a reason, and never anything else."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shusaku.deploy.studio.requests import REQUESTS, BadRequest, parse_request

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200) | VALUES.map(json.dumps) | st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(REQUESTS))},
    optional={name: VALUES for fields in REQUESTS.values() for name in fields}).map(json.dumps))
def test_any_text_is_a_request_or_refused(text: str) -> None:
    try:
        name, fields = parse_request(text)
    except BadRequest as error:
        reason = str(error)
    else:
        reason = "none"
        assert fields.keys() == REQUESTS[name].keys()
    assert 0 < len(reason) < 500


def test_as_many_threads_as_the_settings_allow_may_be_asked_for() -> None:
    text = '{"type": "settings", "simulations": 1, "threads": 256, "temperature": 1, "analyse": true}'
    assert parse_request(text)[1]["threads"] == 256


@pytest.mark.parametrize(("text", "reason"), [
    ("{", "no JSON"), ("[]", "a JSON object with a type"), ('{"type": 1}', "with a type"),
    ('{"type": "plya"}', "nearest: ply"), ('{"type": "play"}', "has the fields action"),
    ('{"type": "play", "action": 1, "ply": 0, "more": 2}', "has the fields action, ply"),
    ('{"type": "play", "action": 1}', "has the fields action, ply"),
    ('{"type": "play", "action": true, "ply": 0}', "must be int, not True"),
    ('{"type": "play", "action": 1.5, "ply": 0}', "must be int"),
    ('{"type": "play", "action": -1, "ply": 0}', r"must lie in \[0, 65535\]"),
    ('{"type": "play", "action": NaN}', "NaN is no number"),
    ('{"type": "settings", "simulations": 1, "threads": 1, "temperature": 1e999, "analyse": true}', "must lie in"),
    ('{"type": "sides", "first": "me", "second": "human"}', "must be one of human, engine"),
    (json.dumps({"type": "see", "position": "x" * 5000}), "at most 4,096"),
    ('{"type": "see", "position": "\\ud800"}', "half a character"),
    (json.dumps({"type": "play", "action": 10**400, "ply": 0}), "must lie in"),
    ('{"type": "settings", "simulations": 1, "threads": 257, "temperature": 1, "analyse": true}', r"in \[1, 256\]"),
    ('{"type": "save", "notation": "kif"}', "one of sgf, pgn, kifu"),
    (json.dumps({"type": "settings", "simulations": 1, "threads": 1, "temperature": 10**400, "analyse": True}),
     "lie in"),
    ("[" * 100_000, "no JSON"),
])
def test_the_reason_is_named(text: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        parse_request(text)
