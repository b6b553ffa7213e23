"""Requests and answers against leaves of every shape and against bytes of every kind."""

import struct
import tracemalloc
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_fixtures import encode_evaluation

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import MAX_REQUEST_BYTES, LeavesCodec, decode_evaluation, fit_leaves
from shusaku.common.messages import Evaluation, GameRecord, Leaves

GAMES = {name: Game(name) for name in ("tic_tac_toe", "connect_four")}
CODECS = {name: LeavesCodec(game) for name, game in GAMES.items()}
HEADER = 16


def random_leaves(game: Game, rows: int, seed: int) -> Leaves:
    """Any leaves that fit the game, whatever they mean."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, game.max_legal_actions + 1, rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Leaves(
        packed=random.integers(0, 256, (rows, game.packed_bytes), dtype=np.uint8),
        uniform=random.normal(size=(rows, game.num_uniform_planes)).astype(np.float32),
        offsets=offsets,
        actions=random.integers(0, game.num_actions, offsets[-1], dtype=np.uint16),
    )


def assert_same(one: Leaves, other: Leaves) -> None:
    for field in fields(Leaves):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), field.name
        assert a.tobytes() == b.tobytes(), field.name


def assert_fit(game: Game, leaves: Leaves) -> None:
    """What everybody downstream relies on."""
    rows = len(leaves)
    assert rows >= 1
    assert leaves.packed.shape == (rows, game.packed_bytes)
    assert leaves.uniform.shape == (rows, game.num_uniform_planes)
    assert np.isfinite(leaves.uniform).all()
    assert (len(leaves.offsets), leaves.offsets[0], leaves.offsets[-1]) == (rows + 1, 0, len(leaves.actions))
    counts = np.diff(leaves.offsets)
    assert counts.min() >= 1
    assert counts.max() <= game.max_legal_actions
    assert leaves.actions.max() < game.num_actions
    for field in fields(Leaves):  # the bindings take no copy of such arrays
        array = getattr(leaves, field.name)
        assert array.flags.c_contiguous
        assert array.flags.aligned


@given(st.sampled_from(sorted(GAMES)), st.integers(1, 300), st.integers(0, 2**32))
@settings(deadline=None)
def test_requests_round_trip(name: str, rows: int, seed: int) -> None:
    leaves = random_leaves(GAMES[name], rows, seed)
    data = CODECS[name].encode(leaves)
    decoded = CODECS[name].decode(data)
    assert_same(leaves, decoded)
    assert_fit(GAMES[name], decoded)


@given(st.sampled_from(sorted(GAMES)), st.integers(1, 3000), st.integers(20, 5000), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_a_split_loses_nothing_and_fills_every_request(name: str, rows: int, room: int, seed: int) -> None:
    game = GAMES[name]
    codec = LeavesCodec(game, room)
    leaves = random_leaves(game, rows, seed)
    parts = codec.split(leaves)
    sizes = [len(codec.encode(part)) for part in parts]
    assert max(sizes) <= codec.max_bytes
    for part, size, following in zip(parts, sizes, parts[1:], strict=False):
        assert np.shares_memory(part.packed, leaves.packed)
        first = game.packed_bytes + 4 * game.num_uniform_planes + 2 + 2 * int(following.offsets[1])
        assert size + first > codec.max_bytes, "another position would have fitted"
    decoded = [codec.decode(codec.encode(part)) for part in parts]
    joined = Leaves(
        np.concatenate([part.packed for part in decoded]),
        np.concatenate([part.uniform for part in decoded]),
        np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.offsets) for part in decoded]))]).astype(np.int32),
        np.concatenate([part.actions for part in decoded]),
    )
    assert_same(leaves, joined)


def test_what_fits_is_not_split() -> None:
    codec, leaves = CODECS["connect_four"], random_leaves(GAMES["connect_four"], 64, 1)
    assert codec.split(leaves) == [leaves]
    assert codec.max_bytes == MAX_REQUEST_BYTES
    many = random_leaves(GAMES["connect_four"], 10_000, 1)
    assert [len(codec.encode(part)) > MAX_REQUEST_BYTES - 100 for part in codec.split(many)][:-1] == [True] * 2
    with pytest.raises(CodecError, match="at most"):
        codec.encode(many)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    for codec in CODECS.values():
        with pytest.raises(CodecError):
            codec.decode(data)
    with pytest.raises(CodecError):
        decode_evaluation(data, 1, 7)


@given(st.sampled_from(sorted(GAMES)), st.integers(1, 5), st.data())
@settings(deadline=None, max_examples=300)
def test_damaged_requests_are_refused_or_still_fit_the_game(name: str, rows: int, data: st.DataObject) -> None:
    request = bytearray(CODECS[name].encode(random_leaves(GAMES[name], rows, rows)))
    for _ in range(data.draw(st.integers(1, 4))):
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 7)))
    try:
        leaves = CODECS[name].decode(bytes(request[: len(request) - cut]))
    except CodecError:
        return
    assert_fit(GAMES[name], leaves)


def changed(place: int, form: str, value: float, rows: int = 3) -> bytes:
    """A request of connect four with one number overwritten; `place` from the end where negative."""
    request = bytearray(CODECS["connect_four"].encode(random_leaves(GAMES["connect_four"], rows, 5)))
    struct.pack_into("<" + form, request, place % len(request), value)
    return bytes(request)


PACKED = 3 * GAMES["connect_four"].packed_bytes  # at the end; the counts are before them, the actions before those


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(0, "I", 0), "begins with"),
        (changed(4, "I", 1), "another game"),
        (changed(8, "I", 4), "positions with"),
        (changed(8, "I", 2**32 - 1), "positions with"),
        (changed(12, "I", 1), "positions with"),
        (changed(-PACKED - 6, "H", 0), "has 0 legal actions"),
        (changed(-PACKED - 6, "H", 8), "has 8 legal actions"),
        (changed(-PACKED - 2, "H", 65535), "65535 legal actions"),
        (changed(-PACKED - 8, "H", 7), "action 7"),
        (changed(HEADER, "f", float("nan")), "not a finite"),
        (changed(HEADER + 4, "f", float("inf")), "not a finite"),
        (changed(0, "I", 0)[:10], "are read"),
        (bytes(MAX_REQUEST_BYTES + 1), "are read"),
        (struct.pack("<4sIII", b"SLQ1", CODECS["connect_four"].crc, 0, 0), "there must be one"),
        (CODECS["tic_tac_toe"].encode(random_leaves(GAMES["tic_tac_toe"], 2, 1)), "another game"),
        ("text", "expected bytes"),
        (bytearray(40), "expected bytes"),
        (None, "expected bytes"),
    ],
)
def test_a_refusal_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        CODECS["connect_four"].decode(data)


def test_counts_that_do_not_add_up_are_refused() -> None:
    game = GAMES["connect_four"]
    leaves = random_leaves(game, 3, 5)
    data = bytearray(CODECS["connect_four"].encode(leaves))
    place = len(data) - PACKED - 6
    count = struct.unpack_from("<H", data, place)[0]
    struct.pack_into("<H", data, place, count - 1 if count > 1 else count + 1)
    with pytest.raises(CodecError, match="the header says"):
        CODECS["connect_four"].decode(bytes(data))


def test_rules_are_told_apart() -> None:
    """Sizes alone would not tell rules apart."""
    one, other = LeavesCodec(GAMES["connect_four"]), LeavesCodec(Game("connect_four"))
    leaves = random_leaves(GAMES["connect_four"], 2, 3)
    assert_same(leaves, other.decode(one.encode(leaves)))
    assert one.crc == other.crc != CODECS["tic_tac_toe"].crc


def test_leaves_of_another_game_are_not_encoded() -> None:
    with pytest.raises(CodecError, match="packed bytes"):
        CODECS["connect_four"].encode(random_leaves(GAMES["tic_tac_toe"], 2, 1))


def test_a_lie_about_sizes_costs_no_memory() -> None:
    data = struct.pack("<4sIII", b"SLQ1", CODECS["connect_four"].crc, 2**32 - 1, 2**32 - 1) + bytes(100)
    tracemalloc.start()
    with pytest.raises(CodecError):
        CODECS["connect_four"].decode(data)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@given(st.integers(1, 50), st.integers(1, 300), st.integers(0, 2**32 - 1), st.integers(0, 2**32))
@settings(deadline=None)
def test_answers_round_trip_as_half_floats(rows: int, actions: int, version: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 2**32, rows + actions, dtype=np.uint32).view(np.float32)  # NaN and infinity too
    with np.errstate(all="ignore"):
        half = numbers.astype(np.float16).astype(np.float32)
    answer = encode_evaluation(Evaluation(numbers[:actions], numbers[actions:], version))
    decoded = decode_evaluation(answer, rows, actions)
    assert decoded.version == version
    assert decoded.logits.dtype == decoded.values.dtype == np.float32
    np.testing.assert_array_equal(decoded.logits, half[:actions])
    np.testing.assert_array_equal(decoded.values, half[actions:])
    for wrong in ((rows + 1, actions), (rows, actions + 1), (rows + 1, actions - 1)):
        with pytest.raises(CodecError):
            decode_evaluation(answer, *wrong)
    for data in (answer[:-1], answer + b"\0", b"x" + answer[1:]):
        with pytest.raises(CodecError):
            decode_evaluation(data, rows, actions)


class OverTheWire:
    """An evaluator whose leaves and answers have been bytes."""

    def __init__(self, game: Game) -> None:
        self._codec, self._evaluate = LeavesCodec(game), PseudoRandomEvaluator(game, 8)
        self.version = 0

    def __call__(self, leaves: Leaves) -> Evaluation:
        decoded = self._codec.decode(self._codec.encode(leaves))
        return decode_evaluation(encode_evaluation(self._evaluate(decoded)), len(leaves), len(leaves.actions))


@pytest.mark.parametrize("cache", [0, 1024])
@pytest.mark.parametrize("name", sorted(GAMES))
def test_games_are_the_same_over_the_wire_bit_for_bit(name: str, cache: int) -> None:
    game = GAMES[name]

    def play(evaluate: OverTheWire | PseudoRandomEvaluator) -> list[GameRecord]:
        player = SelfPlay(game, PuctConfig(simulations=24, cache=cache), SelfPlayConfig(random_plies=3), evaluate,
                          games=8, seed=11, identity=ActorIdentity(0))
        return player.play(600)

    local, remote = play(PseudoRandomEvaluator(game, 8)), play(OverTheWire(game))
    assert len(local) == len(remote) > 10
    for one, other in zip(local, remote, strict=True):
        for field in fields(GameRecord):
            a, b = getattr(one, field.name), getattr(other, field.name)
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes() if isinstance(a, np.ndarray) else True, field.name
        assert (one.outcome, one.game_id) == (other.outcome, other.game_id)


def test_leaves_of_the_value_network_are_cut_to_those_of_the_policy_network():
    policy, value = (Game("go", {"size": 5, "planes": planes}) for planes in ("alphago", "alphago_value"))
    leaves = random_leaves(value, 7, 1)
    cut = fit_leaves(leaves, policy)
    assert cut.uniform.shape == (7, 0)
    planes, wide = (np.zeros((7, *game.observation_shape), np.float32) for game in (policy, value))
    policy.expand(cut.packed, cut.uniform, planes)
    value.expand(leaves.packed, leaves.uniform, wide)
    assert np.array_equal(planes, wide[:, :48])
    assert LeavesCodec(policy).encode(cut)
    assert fit_leaves(leaves, value).uniform.shape == (7, 1)
    for other in (value, Game("go", {"size": 5})):
        with pytest.raises(ValueError, match="packed bytes"):
            fit_leaves(cut, other)
