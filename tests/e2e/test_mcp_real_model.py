"""A small real model, the real filesystem server and toolgate between them: what is asked for in a plain chat completion is done.

A model this small is lost among the fourteen tools of that server, and where it has read a file it may go on to call tools that nobody has.
Two things help it that an operator and a user have in their hands: rules that leave one tool of the server, and a sentence that says what
to do when a file was read.
"""

import json

import pytest
from conftest import Server
from mcp_bench import Toolgate, stdio

RULES = """
[[approval]]
tools = "filesystem.read_text_file"
policy = "allow"

[[approval]]
tools = "filesystem.*"
policy = "deny"
"""
SYSTEM = "Read files with your tools. When you have read a file, tell the user what it says with respond."
QUESTION = "What does README.md say? Read it with read_text_file."


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def toolgate(tmp_path, files, llama):
    (tmp_path / "toolgate.toml").write_text(RULES)
    servers = {"filesystem": stdio("filesystem", str(files))}
    toolgate = Toolgate(tmp_path, llama.url, servers, TOOLGATE_CONFIG=str(tmp_path / "toolgate.toml"))
    yield toolgate
    toolgate.close()


def request(**fields):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    # Without the prompt cache an answer does not depend on what was asked before: batches of another size round differently.
    limits = {"model": "any", "temperature": 0, "seed": 1, "max_tokens": 96, "cache_prompt": False}
    return {**limits, "messages": messages, **fields}


@pytest.mark.parametrize("day", ["Tuesday", "Friday"])
def test_the_model_reads_a_file(toolgate, files, day):
    (files / "README.md").write_text(f"The meeting is on {day} at noon.\n")
    answer = Server(toolgate.url).chat(request(), {"x-toolgate-mcp": "filesystem", "x-toolgate-explain": "1"})
    assert answer.status == 200, answer.body
    message = answer.choice["message"]
    assert answer.choice["finish_reason"] == "stop", answer.json
    assert f"{day} at noon" in message["content"] and not message.get("tool_calls"), answer.json
    # It did not guess: the file's words came from the server.
    calls = answer.json["toolgate"]["calls"]
    assert [(call["server"], call["tool"], call["success"]) for call in calls] == [("filesystem", "read_text_file", True)], calls


def test_the_model_reads_a_file_in_a_stream(toolgate, files):
    (files / "README.md").write_text("The meeting is on Tuesday at noon.\n")
    answer = Server(toolgate.url).chat(request(stream=True), {"x-toolgate-mcp": "filesystem"})
    chunks = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "Tuesday at noon" in "".join(delta.get("content") or "" for delta in deltas)
    assert not any("tool_calls" in delta for delta in deltas)
