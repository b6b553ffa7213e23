"""The variables that tell Ray's processes which cluster they belong to, and how to log in there."""

import os

RAY_VARIABLES = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_API_SERVER_ADDRESS")


def environment_without_ray(*also: str) -> dict[str, str]:
    """Of this process, without these variables and the named ones."""
    return {name: value for name, value in os.environ.items() if name not in (*RAY_VARIABLES, *also)}
