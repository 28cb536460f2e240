"""Who runs which tests where several processes share them (`pytest -n 2 --dist loadfile`)? A plug-in of `conftest.py`.

A file's tests stay together, since they share its fixtures. And what there is once on a machine, the node of the
cluster and the images of its containers, stays with one process: all files that ask for it are as one.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_ROOT = Path(__file__).parents[1]
_OF_THE_NODE = ("tests/containers/", "tests/charts/test_install.py", "tests/cluster/test_cluster.py", "tests/e2e/")
_ONCE = {"cluster", "container_images"}


class _NodeTogether(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return "the node" if nodeid.startswith(_OF_THE_NODE) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _NodeTogether | None:
    """In place of `--dist loadfile`."""
    return _NodeTogether(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """The processes know tests by name alone, so what asks for the node has to be where they look for it."""
    for item in items:
        asks = _ONCE & set(getattr(item, "fixturenames", ()))
        where = item.path.relative_to(_ROOT).as_posix()
        if asks and not where.startswith(_OF_THE_NODE):
            raise pytest.UsageError(f"{where} asks for {', '.join(asks)}: name it in _OF_THE_NODE of tests/sharing.py")
