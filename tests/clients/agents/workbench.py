"""Runs a coding agent on one task through toolgate, and judges what came of it. For every agent alike.

The command line and the configuration of an agent stand in its own `test_*.py`. `parts.sh agents` installs it and prints the folder of
its command, which these tests get as AGENTS; the version is pinned in package.json beside this file. toolgate is TOOLGATE_BIN.

    def test_a_shell_command(bench):
        bench.write("settings.json", ...)                 # in the working folder; bench.home is HOME
        outcome = bench.run("agent", "--flag", bench.prompt, BASE_URL=bench.url)
        bench.check(outcome)

Every run has its own model, toolgate, HOME and working folder. What an agent starts is found by a variable in its environment, also
when it went to the background, and is ended.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path

from scripted_model import ScriptedModel
from tap import Tap

PROMPT = "Run the command that you know of in the shell, and tell me what it printed."
RUN_SECONDS_MAX = 90
# For what an agent started to end by itself once the agent has ended.
LEFT_SECONDS_MAX = 3
READY_SECONDS_MAX = 10
MARK = "TOOLGATE_TEST_RUN"
# Ends a process even when these tests are killed with a signal that cannot be caught.
GUARD = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


@dataclass
class Outcome:
    """How a run ended."""

    # Its exit code, or that it had none in time.
    code: int | str
    stdout: str
    stderr: str
    left_running: list


class Workbench:
    """What one run needs. `close` ends all of it."""

    prompt = PROMPT

    def __init__(self, script, folder: Path):
        self.folder = folder / "work"
        self.home = folder / "home"
        self.log = folder / "toolgate.log"
        for made in (self.folder, self.home, folder / "tmp"):
            made.mkdir()
        self.mark = uuid.uuid4().hex
        self.model = ScriptedModel(script, self.mark[:8])
        self.toolgate, port = start_toolgate(self.model.url, self.log)
        self.tap = Tap("127.0.0.1", port)
        self.url = self.tap.url

    def close(self):
        self.tap.close()
        self.toolgate.terminate()
        code = self.toolgate.wait(10)
        self.model.close()
        assert code == 0, f"toolgate ended with exit code {code}{end_of(self.log.read_text())}"

    def write(self, path, content):
        """Writes a file, a `dict` as JSON. A path that is not absolute is one in the working folder."""
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content) if isinstance(content, dict) else content)

    def run(self, command, *options, **variables):
        """Runs a command of the agent until it ends, whoever it leaves behind."""
        out, err = self.folder.parent / "stdout", self.folder.parent / "stderr"
        # Files, since a pipe would stay open as long as anybody has it.
        with out.open("w") as stdout, err.open("w") as stderr:
            run = subprocess.Popen(
                [*GUARD, command, *options],
                cwd=self.folder,
                env={**self._environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            code = run.wait(RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = f"none in {RUN_SECONDS_MAX} seconds"
        finally:
            left_running = self._end_what_is_left()
            run.wait()
        return Outcome(code, out.read_text(errors="replace"), err.read_text(errors="replace"), left_running)

    def check(self, outcome):
        """The command was run once, the model was told what came of it, and the agent what the model said; nothing else is left."""
        assert self.model.faults == []
        shown = f"{end_of(outcome.stdout)}{end_of(outcome.stderr)}"
        assert outcome.code == 0, f"exit code {outcome.code}{shown}"
        assert self.model.final_text in outcome.stdout, shown
        assert (self.folder / "marker.txt").read_text() == f"{self.model.token}\n"
        assert outcome.left_running == []
        self._check_what_the_model_was_asked()

    def _check_what_the_model_was_asked(self):
        """Wrong replies of the model stay between it and toolgate: the agent repeats one call and its result."""
        model = self.model
        last = [request["messages"][-1] for request in model.main_requests]
        assert len(last) == model.script.replies + 1, last
        messages = model.main_requests[-1]["messages"]
        [message] = [message for message in messages if message.get("tool_calls")]
        [call] = message["tool_calls"]
        assert model.command in json.dumps(json.loads(call["function"]["arguments"]), ensure_ascii=False)
        [result] = [message for message in messages if message["role"] == "tool"]
        assert result["tool_call_id"] == call["id"]
        assert model.token in json.dumps(result["content"])

    def _environment(self):
        """Nothing of the caller's but the way to the commands, and no way to the network."""
        home = self.home
        nowhere = "http://127.0.0.1:9"
        return {
            "PATH": f"{os.environ['AGENTS']}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "TMPDIR": str(home.parent / "tmp"),
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "CI": "1",
            "DO_NOT_TRACK": "1",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            MARK: self.mark,
        }

    def _end_what_is_left(self):
        """Ends the processes of this run that outlived the agent, and returns their command lines."""
        deadline = time.monotonic() + LEFT_SECONDS_MAX
        while (left := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return list(left.values())

    def _processes(self):
        """The command lines of this run's processes, by id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass  # It has ended, or is somebody else's.
        return found


def start_toolgate(backend_url, log):
    """Starts a toolgate before a backend, and returns its process and port when it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"TOOLGATE_LISTEN": f"127.0.0.1:{port}", "TOOLGATE_BACKEND_URL": backend_url}
    with log.open("w") as sink:
        toolgate = subprocess.Popen(
            [*GUARD, os.environ["TOOLGATE_BIN"], "serve"], env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not answers(f"http://127.0.0.1:{port}/health/ready"):
        if toolgate.poll() is not None or time.monotonic() > deadline:
            toolgate.kill()
            raise AssertionError(f"toolgate did not become ready{end_of(log.read_text())}")
        time.sleep(0.02)
    return toolgate, port


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def end_of(text):
    return f"\n{text[-3000:]}" if text else ""
