"""What the inference server's actor makes of the settings."""

from typing import Any

import pytest

from shusaku.actors import remote
from shusaku.actors.inference.protocol import MAX_IN_FLIGHT
from shusaku.actors.remote import InferenceServerActor
from shusaku.common.config.schema import Config


class MadeError(Exception):
    """Ends `run` behind the point that is tested."""


@pytest.mark.parametrize(("actors", "requests"), [(1, 512), (32, 512), (100, 100 * MAX_IN_FLIGHT)])
def test_the_queue_has_room_for_every_request_of_every_actor(
    actors: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Any] = {}

    def make(*_: object, **settings: Any) -> None:
        made.update(settings)
        raise MadeError

    monkeypatch.setattr(remote, "InferenceServer", make)
    with pytest.raises(MadeError):
        InferenceServerActor(Config(), 0, [8], None, actors).run()
    assert made["max_waiting"] == requests
