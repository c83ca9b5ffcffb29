"""Gives each test of an agent a workbench, once for every way in which the model calls the tool."""

import signal
import sys
import tempfile
from pathlib import Path

import pytest

# For scripted_backend.py.
sys.path.append(str(Path(__file__).parents[1]))
# They say what they compared, as the tests do.
pytest.register_assert_rewrite("chat_completions", "workbench")

from scripted_model import SCRIPTS
from workbench import Workbench


@pytest.fixture(params=SCRIPTS, ids=lambda script: script.__name__)
def bench(request):
    with tempfile.TemporaryDirectory(prefix="toolgate-agent-", ignore_cleanup_errors=True) as folder:
        bench = Workbench(request.param, Path(folder))
        try:
            yield bench
        finally:
            bench.close()
            # Shown where the test has failed.
            print(bench.log.read_text()[-5000:])


def pytest_sessionstart():
    """The time limit of the group comes as this signal, and what runs is to be ended then, too."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("stopped by a signal", returncode=143))
