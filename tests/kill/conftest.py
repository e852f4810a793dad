"""What every kill test may use."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.kill.harness import put_away, running
from tests.kill.workload import prepare


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped cloud with a prepared project."""
    directory = tmp_path_factory.mktemp("kill") / "cloud"
    with running(directory) as cloud:
        project = prepare(cloud)
        assert cloud.findings() == []
    (directory / "project.json").write_bytes(msgspec.json.encode(project))
    return put_away(directory)
