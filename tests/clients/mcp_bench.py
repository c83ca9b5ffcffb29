"""Real MCP servers behind a toolgate, and before it a model that says what a test tells it to. For the tests of tools that toolgate runs.

    bench.model.says(call("echo", message="hi"), TELLS)   # two replies: a call, and what came of it
    bench.ask("Say hi.", mcp="everything")                # a plain chat completion, with the official package

`parts.sh mcp-servers` installs the servers and prints the folder of their commands, which these tests get as MCP_SERVERS; the versions
are pinned in tests/real/mcp. toolgate is TOOLGATE_BIN. The servers that toolgate starts are found by a variable in their environment,
which only the file that names them can have put there, wherever they went.
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from http.server import ThreadingHTTPServer
from pathlib import Path

import openai
from scripted_backend import Exchange

READY_SECONDS_MAX = 30
MARK = "TOOLGATE_TEST_RUN"
# Ends a process even when these tests are killed with a signal that cannot be caught.
GUARD = ["setpriv", "--pdeathsig", "KILL"]
# A reply of the model: it tells the result of its last call, word for word.
TELLS = object()


def call(tool, /, **arguments):
    """A reply of the model that calls one tool."""
    return calls((tool, arguments))


def calls(*tools):
    """A reply of the model that calls several tools at once."""
    return [{"name": name, "arguments": arguments} for name, arguments in tools]


class ScriptedModel:
    """A model server that gives the replies that it was told, one to each request, and keeps what it was asked."""

    def __init__(self):
        self.requests = []
        self.faults = []
        self._replies = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), ModelExchange)
        self._server.model = self
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def says(self, *replies):
        """Forgets what was before."""
        self.requests, self.faults, self._replies = [], [], list(replies)

    def reply(self, body):
        """The deltas of the answer to a request."""
        self.requests.append(body)
        reply = self._replies.pop(0)
        if isinstance(reply, list):
            return [{"tool_calls": [delta(index, called) for index, called in enumerate(reply)]}]
        text = text_of(body["messages"][-1]["content"]) if reply is TELLS else reply
        # Where it is offered, text is what this tool says.
        if any(tool["function"]["name"] == "respond" for tool in body.get("tools", [])):
            return [{"tool_calls": [delta(0, {"name": "respond", "arguments": {"message": text}})]}]
        return [{"content": text}]

    def results(self):
        """What the last request says that came of the calls before it, in order."""
        return [text_of(message["content"]) for message in self.requests[-1]["messages"] if message["role"] == "tool"]

    def offered(self):
        """The names of the tools that the last request offers."""
        return [tool["function"]["name"] for tool in self.requests[-1]["tools"]]


def delta(index, called):
    function = {"name": called["name"], "arguments": json.dumps(called["arguments"])}
    return {"index": index, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}


def text_of(content):
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class ModelExchange(Exchange):
    """One request, whatever `model` it names."""

    # Less would mean to toolgate that the prompt was cut off: see README, `x-toolgate-context`.
    usage = {"prompt_tokens": 60_000, "completion_tokens": 50, "total_tokens": 60_050}

    def do_POST(self):
        model = self.server.model
        try:
            self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            deltas = model.reply(self.body)
        except Exception as fault:  # The client would hide it behind an error of its own.
            model.faults.append(fault)
            self.send_json(500, {"error": {"message": repr(fault), "type": "server_error", "param": None, "code": 500}})
            return
        # What toolgate does not look into it passes on as it is.
        if not self.body.get("stream"):
            model.faults.append("this request was passed on, although tools were to be added")
        self.stream(deltas, "tool_calls" if "tool_calls" in deltas[-1] else "stop")

    def log_message(self, *_):
        pass


class Toolgate:
    """A toolgate with MCP servers, from its construction until `close`."""

    def __init__(self, folder: Path, backend_url, servers, **variables):
        self.mark = uuid.uuid4().hex
        self.log = folder / "toolgate.log"
        file = folder / "mcp_servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "PATH": f"{os.environ['MCP_SERVERS']}:{os.environ['PATH']}",
            "TOOLGATE_LISTEN": f"127.0.0.1:{port}",
            "TOOLGATE_BACKEND_URL": backend_url,
            "TOOLGATE_MCP_SERVERS": str(file),
            # Tests must not fail because the machine is busy.
            "TOOLGATE_MCP_START_TIMEOUT": "60s",
            "TOOLGATE_TRACE_SINK": str(folder / "traces.jsonl"),
            # The servers' mark, which their file passes on as ${…}.
            "NAME_OF_THIS_RUN": self.mark,
            **variables,
        }
        with self.log.open("w") as sink:
            command = [*GUARD, os.environ["TOOLGATE_BIN"], "serve"]
            self.process = subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        has_begun = lambda: self.process.poll() is not None or answers(f"{self.url}/health/live")
        wait_until(has_begun, "toolgate does not answer", READY_SECONDS_MAX)
        assert self.process.poll() is None, f"toolgate ended{self.end_of_log()}"

    def close(self):
        self.process.terminate()
        code = self.process.wait(20)
        for process in self.servers():
            os.kill(process, signal.SIGKILL)
        assert code == 0, f"toolgate ended with exit code {code}{self.end_of_log()}"

    def servers(self):
        """The command lines of the servers' processes, by id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass  # It has ended, or is somebody else's.
        return found

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def end_of_log(self):
        return f"\n{self.log.read_text(errors='replace')[-3000:]}"


class Bench:
    """A scripted model, a toolgate and all servers. `close` ends them."""

    def __init__(self, folder: Path):
        self.files = folder / "files"
        self.files.mkdir()
        self.memory = folder / "memory.jsonl"
        self.repository = folder / "repository"
        make_repository(self.repository)
        self.model = ScriptedModel()
        self.everything = EverythingOverHttp(folder)
        self.toolgate = Toolgate(
            folder,
            self.model.url,
            {
                "filesystem": stdio("filesystem", str(self.files)),
                "everything": stdio("everything", CONFIGURED="by the file"),
                "remote": {"url": self.everything.url},
                "memory": stdio("memory", MEMORY_FILE_PATH=str(self.memory)),
                "time": stdio("time"),
                "git": stdio("git", "--repository", str(self.repository)),
            },
            # None of the servers' business.
            SECRET_OF_THE_OPERATOR="do not pass on",
        )
        self.client = openai.OpenAI(base_url=f"{self.toolgate.url}/v1", api_key="none", max_retries=0, timeout=60)

    def close(self):
        try:
            self.client.close()
            self.toolgate.close()
        finally:
            self.everything.close()
            self.model.close()

    def ask(self, question, mcp=None, explain=False, **fields):
        """The answer to a question, with the tools of the servers in `mcp` or of all."""
        headers = {**({"x-toolgate-mcp": mcp} if mcp else {}), **({"x-toolgate-explain": "1"} if explain else {})}
        messages = [{"role": "user", "content": question}]
        completion = self.client.chat.completions.create(model="scripted", messages=messages, extra_headers=headers, **fields)
        assert self.model.faults == []
        return completion

    def told(self, question, tool, /, mcp=None, **arguments):
        """What a tool's result is to the model, which calls it and tells it."""
        self.model.says(call(tool, **arguments), TELLS)
        [choice] = self.ask(question, mcp).choices
        assert choice.finish_reason == "stop" and choice.message.tool_calls is None
        [result] = self.model.results()
        assert choice.message.content == result
        return result


class EverythingOverHttp:
    """The reference server that has everything, over streamable HTTP."""

    def __init__(self, folder: Path):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/mcp"
        environment = {**os.environ, "PATH": f"{os.environ['MCP_SERVERS']}:{os.environ['PATH']}", "PORT": str(port)}
        with (folder / "everything.log").open("w") as sink:
            command = [*GUARD, f"{os.environ['MCP_SERVERS']}/mcp-server-everything", "streamableHttp"]
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        wait_until(lambda: listens(port), "the server over HTTP does not listen", READY_SECONDS_MAX)

    def close(self):
        self.process.terminate()
        self.process.wait(10)


def stdio(name, *arguments, **environment):
    """A server's entry in the file."""
    return {"command": f"mcp-server-{name}", "args": list(arguments), "env": {MARK: "${NAME_OF_THIS_RUN}", **environment}}


def make_repository(folder: Path):
    folder.mkdir()

    def git(*arguments):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    git("init", "--quiet")
    (folder / "gulls.txt").write_text("41\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "Count the gulls")
    (folder / "gulls.txt").write_text("42\n")


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
