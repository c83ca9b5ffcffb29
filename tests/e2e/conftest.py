"""What the tests over a real model share: where the running processes are, a plain HTTP exchange, a toolgate of one's own."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# For mcp_bench.py.
sys.path.append(str(Path(__file__).parents[1] / "clients"))


class Answer:
    """A whole HTTP answer. Header names are in lower case."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def choice(self):
        return self.json["choices"][0]


class Server:
    """A base URL that requests are sent to, without a client library that could smooth anything over."""

    def __init__(self, url):
        self.url = url

    def connect(self):
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=120)

    def send(self, method, path, body=None, headers=()):
        """Sends a request and returns its connection: getresponse() waits for the answer."""
        connection = self.connect()
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"content-type": "application/json", **dict(headers)})
        return connection

    def get(self, path):
        return Answer(self.send("GET", path).getresponse())

    def chat(self, body, headers=()):
        return Answer(self.send("POST", "/v1/chat/completions", body, headers).getresponse())


@pytest.fixture(scope="session")
def toolgate():
    return Server(os.environ["TOOLGATE_URL"])


@pytest.fixture(scope="session")
def llama():
    """The backend itself, for what toolgate is compared with."""
    return Server(os.environ["LLAMA_URL"])


@pytest.fixture
def start_toolgate():
    """Starts a toolgate in front of a backend URL, for a test that stops it or breaks what it stands on."""
    started = []

    def start(backend_url):
        listen = f"127.0.0.1:{free_port()}"
        environment = {**os.environ, "TOOLGATE_LISTEN": listen, "TOOLGATE_BACKEND_URL": backend_url}
        process = subprocess.Popen([os.environ["TOOLGATE_BIN"], "serve"], env=environment)
        started.append(process)
        server = Server(f"http://{listen}")
        wait_until_live(server, process)
        return server, process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def wait_until_live(server, process):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        assert process.poll() is None, f"toolgate ended with exit code {process.returncode}"
        try:
            if server.get("/health/live").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("toolgate does not answer on /health/live")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
