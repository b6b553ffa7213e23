"""Whether a wheel of ours can run on the nodes of a cluster, before anything is sent there."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

_GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)\b")


@dataclass(frozen=True)
class WheelFacts:
    """What a wheel asks of a machine."""

    version: str  # of Shusaku
    tags: tuple[str, ...]  # such as cp311-cp311-linux_x86_64
    requirements: tuple[str, ...] = ()  # as in its metadata, without extras
    glibc: str = ""  # that its core needs at least; "": it says nothing

    @property
    def platform(self) -> str:
        """Of its first tag."""
        return self.tags[0].rpartition("-")[2] if self.tags else "any"

    @property
    def python(self) -> str:
        """Of its first tag, such as cp311."""
        return self.tags[0].partition("-")[0] if self.tags else "py3"

    def packages(self) -> list[str]:
        """Names of what it requires."""
        return [Requirement(text).name for text in self.requirements]


@dataclass(frozen=True)
class NodeReport:
    """What one node said: `wheel_probe.describe_node`."""

    name: str
    silence: str = ""  # why it said nothing
    platform: str = ""
    python: str = ""
    glibc: str = ""
    tags: Sequence[str] = ()  # of the wheel's tags, those that its Python takes
    lacking_flags: Sequence[str] = ()  # instruction sets of x86-64-v3 that its processor lacks
    versions: Mapping[str, str] = field(default_factory=dict)
    is_editable: bool = False  # a checkout of ours is installed there
    environment: Mapping[str, Any] = field(default_factory=dict)  # for the markers of requirements


def refusals(wheel: WheelFacts, nodes: Sequence[NodeReport]) -> list[str]:
    """Why the wheel cannot run there, one line a node that cannot; each with the way out."""
    return [reason for node in nodes if not node.silence for reason in _reasons(wheel, node)]


def notes(own_ray: str, nodes: Sequence[NodeReport]) -> Iterator[str]:
    """What differs and does no harm, one line each."""
    rays = sorted({node.versions["ray"] for node in nodes if "ray" in node.versions} - {own_ray})
    if rays:
        yield f"the cluster runs Ray {', '.join(rays)}, this machine {own_ray}; the wheel works with both"
    for node in nodes:
        if node.silence:
            yield f"node {node.name} did not say what it can run: {node.silence}"


def needed_glibc(core: bytes) -> str:
    """The newest version of glibc that a compiled module names; "" if none."""
    found = [(int(major), int(minor)) for major, minor in _GLIBC.findall(core)]
    return "{}.{}".format(*max(found)) if found else ""


def _reasons(wheel: WheelFacts, node: NodeReport) -> Iterator[str]:
    """The first that holds: the others may follow from it."""
    if not node.tags:
        yield (f"node {node.name} is {node.platform} with Python {node.python}, and the wheel is for {wheel.platform} "
               f"and {wheel.python}; build one on such a machine with `python -m pip wheel --no-deps .` in a checkout "
               "and name it with --wheel FILE, or use what the nodes have installed, with --wheel none")
    elif node.lacking_flags:
        yield (f"the processor of node {node.name} lacks {', '.join(node.lacking_flags)}, and wheels are for "
               "x86-64-v3; install Shusaku there with `make install` and use it with --wheel none")
    elif node.glibc and wheel.glibc and _version(node.glibc) < _version(wheel.glibc):
        yield (f"node {node.name} has glibc {node.glibc}, and the wheel's core was built with {wheel.glibc}; build the "
               "wheel on a machine as old as that node and name it with --wheel FILE")
    elif node.is_editable:
        yield (f"node {node.name} has a checkout of Shusaku installed (editable), which hides a wheel that is sent; "
               "remove it there with `pip uninstall shusaku`, or use it with --wheel none")
    elif lacking := list(_lacking(wheel, node)):
        yield (f"node {node.name} lacks {', '.join(lacking[:4])}{f' and {len(lacking) - 4} more' * (len(lacking) > 4)}"
               "; install there what the wheel needs, with `pip install WHEEL`")


def _lacking(wheel: WheelFacts, node: NodeReport) -> Iterator[str]:
    for text in wheel.requirements:
        need = Requirement(text)
        if need.marker is not None and not need.marker.evaluate({"extra": "", **node.environment}):
            continue
        have = node.versions.get(need.name)
        if have is None or not need.specifier.contains(have, prereleases=True):
            name = "Ray" if need.name == "ray" else need.name
            yield f"{name}{need.specifier}" + (f" (it has {have})" if have else "")


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
