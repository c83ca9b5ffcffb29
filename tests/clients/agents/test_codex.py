"""Codex, over OpenAI's Responses."""

import json

import pytest
from scripted_model import REASONING, call
from workbench import Workbench

CONFIG = """
model = "{model}"
model_provider = "toolgate"

[model_providers.toolgate]
name = "toolgate"
base_url = "{url}/v1"
env_key = "TOOLGATE_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
# Codex offers a model that it does not know the tools of old, and this one a tool whose input is free text.
UNKNOWN_MODEL = "scripted"
PATCHING_MODEL = "gpt-5.5"
PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+\"Zürich\" 😀\n*** End Patch\n"


def run(bench, model=UNKNOWN_MODEL):
    home = bench.home / "codex"
    bench.write(home / "config.toml", CONFIG.format(model=model, url=bench.url))
    # Without its sandbox, which needs more rights than a container gives.
    options = ("--skip-git-repo-check", "--sandbox", "danger-full-access")
    return bench.run("codex", "exec", *options, bench.prompt, CODEX_HOME=str(home), TOOLGATE_KEY="none")


def test_a_shell_command(bench):
    bench.check(run(bench))
    (asked, answered), (told, ended) = exchanges(bench)
    check_events(answered)
    check_events(ended)
    *thoughts, called = answered[-1]["response"]["output"]
    assert called["type"] == "function_call" and bench.model.command in json.loads(called["arguments"])["cmd"]
    # Codex asks for summaries, shows them and sends them back.
    assert "".join(part["text"] for thought in thoughts for part in thought["summary"]) == REASONING * bench.model.script.replies
    *_, message = ended[-1]["response"]["output"]
    assert [part["text"] for part in message["content"]] == [bench.model.final_text]
    check_request(asked, bench.model.main_requests[0])
    assert [item["type"] for item in told["input"]][-3:] == ["reasoning", "function_call", "function_call_output"]


@pytest.fixture
def bench_with(request, tmp_path):
    """A workbench for a script of the test's own."""
    benches = []

    def build(script):
        benches.append(Workbench(script, tmp_path))
        return benches[0]

    yield build
    for bench in benches:
        bench.close()


def test_a_tool_of_a_namespace(bench_with):
    """Codex finds the tool only by its namespace and name, and tells what it thinks of the id."""

    def close_agent_first(model, shell):
        if model.attempts > 1:
            return [call(shell["name"], {"cmd": model.command})]
        return [call("close_agent", {"target": "nobody"})]

    bench = bench_with(close_agent_first)
    outcome = run(bench)
    assert (outcome.code, bench.model.faults, outcome.left_running) == (0, [], [])
    assert bench.model.final_text in outcome.stdout
    *_, (told, _) = exchanges(bench)
    called = next(item for item in told["input"] if item["type"] == "function_call")
    assert (called["namespace"], called["name"]) == ("multi_agent_v1", "close_agent")
    said = next(item for item in told["input"] if item["type"] == "function_call_output")
    assert "invalid agent id" in said["output"], said


def test_a_tool_of_free_text(bench_with):
    """The patch is applied, and comes back to the model as the call that it made."""

    def patch_first(model, shell):
        if model.attempts > 1:
            return [call(shell["name"], {"cmd": model.command})]
        return [call("apply_patch", {"input": PATCH})]

    bench = bench_with(patch_first)
    outcome = run(bench, PATCHING_MODEL)
    assert (outcome.code, bench.model.faults, outcome.left_running) == (0, [], [])
    assert (bench.folder / "patched.txt").read_text() == '"Zürich" 😀\n', outcome.stderr
    (_, answered), *_ = exchanges(bench)
    check_events(answered)
    assert answered[-1]["response"]["output"][-1]["input"] == PATCH
    [function] = [call["function"] for call in calls(bench.model.main_requests[1]) if call["function"]["name"] == "apply_patch"]
    assert json.loads(function["arguments"]) == {"input": PATCH}


def exchanges(bench):
    """What Codex asked with its tools, and the events that it was answered."""
    pairs = [(request.json(), answer) for request, answer in bench.tap.exchanges() if request.path == "/v1/responses"]
    return [(asked, answer.events()) for asked, answer in pairs if asked.get("tools")]


def check_events(events):
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created" and events[-1]["type"] == "response.completed"
    response = events[-1]["response"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == response["output"]
    assert response["usage"]["total_tokens"] > 0


def check_request(asked, received):
    """The model sees the functions, those of a namespace too, and no tool that only a vendor's server runs."""
    names = []
    for tool in asked["tools"]:
        names += [inner["name"] for inner in tool.get("tools", [])] or [tool.get("name")] * (tool["type"] == "function")
    assert [tool["function"]["name"] for tool in received["tools"]] == [*names, "respond"]
    schemas = {tool["name"]: tool["parameters"] for tool in asked["tools"] if tool["type"] == "function"}
    seen = {tool["function"]["name"]: tool["function"]["parameters"] for tool in received["tools"]}
    assert {name: json.dumps(seen[name]) for name in schemas} == {name: json.dumps(schema) for name, schema in schemas.items()}
    assert [message["role"] for message in received["messages"]] == [
        {"developer": "system"}.get(item["role"], item["role"]) for item in asked["input"]
    ]


def calls(request):
    return [call for message in request["messages"] for call in message.get("tool_calls", [])]
