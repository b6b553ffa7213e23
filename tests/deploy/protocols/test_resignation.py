"""An engine resigns when it sees it lost for some moves in a row."""

from shusaku.deploy.protocols.resignation import ResignationRule


def test_all_of_the_last_moves_have_to_agree() -> None:
    rule = ResignationRule(-0.9, 3)
    assert [rule.record(value) for value in (-0.95, -0.95, -0.85, -0.95, -0.91, -0.99)] == [False] * 5 + [True]


def test_a_new_game_begins_without_the_last_one() -> None:
    rule = ResignationRule(-0.9, 2)
    rule.record(-1.0)
    rule.begin_game()
    assert not rule.record(-1.0)
    assert rule.record(-1.0)


def test_at_minus_one_it_never_resigns() -> None:
    rule = ResignationRule(-1.0, 1)
    assert not any(rule.record(-1.0) for _ in range(5))
