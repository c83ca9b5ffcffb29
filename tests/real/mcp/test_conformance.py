"""The official conformance suite of MCP, over all that two revisions require of a client. One test a scenario and revision.

MCP_CONFORMANCE is the folder of the suite's command (`parts.sh mcp-conformance`), TOOLGATE_BIN the binary. What toolgate does not pass is
listed, with reasons, in conformance/expected-failures.yml.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "conformance"
COMMANDS = Path(os.environ.get("MCP_CONFORMANCE", "."))
SUITE = COMMANDS.parent / "@modelcontextprotocol" / "conformance"
REVISIONS = ["2025-11-25", "2026-07-28"]
# Younger than the lists, and about what toolgate promises: a schema reaches the model as its server wrote it.
BEYOND = ["json-schema-2020-12-preservation"]
SECONDS = 60


def listed(path):
    """The scenarios of a client that a file of the suite's kind lists, which is YAML of the simplest sort."""
    inside, found = False, []
    for line in path.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            inside = line.startswith("client:")
        elif inside and line.strip().startswith("- "):
            found.append(line.strip().removeprefix("- "))
    return found


def scenarios(revision):
    path = SUITE / "requirements" / f"{revision}.yaml"
    # Without the suite every test fails, and says so.
    names = listed(path) if path.exists() else []
    return [pytest.param(revision, name, id=f"{revision}-{name}") for name in [*names, *BEYOND]]


@pytest.mark.parametrize(("revision", "scenario"), [case for revision in REVISIONS for case in scenarios(revision)])
def test_scenario(revision, scenario, tmp_path):
    assert SUITE.is_dir(), "MCP_CONFORMANCE names no folder with the suite"
    baseline = HERE / "expected-failures.yml"
    command = [COMMANDS / "conformance", "client", "--scenario", scenario, "--spec-version", revision, "--output-dir", tmp_path]
    client = shlex.join([sys.executable, str(HERE / "client.py")])
    ended = subprocess.run(
        [*map(str, command), "--command", client, "--expected-failures", str(baseline)],
        env={**os.environ, "PATH": f"{COMMANDS}:{os.environ['PATH']}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    said = f"{ended.stdout}\n{ended.stderr}\n" + "\n".join(path.read_text()[-4000:] for path in tmp_path.rglob("stderr.txt"))
    # The suite's exit code is 1 for what fails and is not listed, and for what is listed and passes.
    assert ended.returncode == 0, said
    assert "Checks:" in said, said
    if scenario in listed(baseline):
        pytest.xfail("listed in expected-failures.yml")
