"""Tools of real MCP servers, run by toolgate while the official packages ask for nothing but an answer.

The model is scripted: it calls the tools that a test names and tells what came of it. Everything else is real.
"""

import http.client
import json
import os
import re
import signal

import anthropic
import pytest
from mcp_bench import TELLS, Bench, Toolgate, call, calls, stdio, wait_until

WORDS = "The lighthouse keeper counts 42 gulls in Zürich 😀."
READ_IT = "Read README.md with the filesystem server."
# The same server twice: as a child process, and over streamable HTTP.
TRANSPORTS = ["everything", "remote"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("mcp"))
    (bench.files / "README.md").write_text(WORDS)
    yield bench
    bench.close()


def check_offered(bench):
    """All tools are there, and toolgate's own."""
    offered = bench.model.offered()
    assert {"read_text_file", "echo", "create_entities", "convert_time", "git_log", "respond"} <= set(offered)
    assert len(set(offered)) == len(offered)


def test_a_file_is_read_through_a_plain_chat_completion(bench):
    bench.model.says(call("read_text_file", path="README.md"), TELLS)
    completion = bench.ask(READ_IT)
    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == (WORDS, "stop", None)
    # Two turns of the model.
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (120_000, 100)
    check_offered(bench)


def test_a_file_is_read_through_a_streamed_chat_completion(bench):
    bench.model.says(call("read_text_file", path="README.md"), TELLS)
    chunks = list(bench.ask(READ_IT, stream=True, stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1
    *chunks, last = chunks
    assert (last.choices, last.usage.completion_tokens) == ([], 100)
    choices = [chunk.choices[0] for chunk in chunks]
    assert "".join(choice.delta.content or "" for choice in choices) == WORDS
    assert [choice.delta.role for choice in choices if choice.delta.role] == ["assistant"]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    # Of what went on inside, nothing is seen.
    assert all(choice.delta.tool_calls is None for choice in choices)


def test_a_file_is_read_with_the_stream_helper(bench):
    bench.model.says(call("read_text_file", path="README.md"), TELLS)
    messages = [{"role": "user", "content": READ_IT}]
    with bench.client.chat.completions.stream(model="scripted", messages=messages) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        [choice] = stream.get_final_completion().choices
    assert text == choice.message.content == WORDS


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_file_is_read_through_responses(bench, stream):
    bench.model.says(call("read_text_file", path="README.md"), TELLS)
    answer = bench.client.responses.create(model="scripted", input=READ_IT, stream=stream)
    response = list(answer)[-1].response if stream else answer
    assert bench.model.faults == []
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["message"]
    assert response.output_text == WORDS


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_file_is_read_through_messages(bench, stream):
    bench.model.says(call("read_text_file", path="README.md"), TELLS)
    request = {"model": "scripted", "max_tokens": 1024, "messages": [{"role": "user", "content": READ_IT}]}
    with anthropic.Anthropic(base_url=bench.toolgate.url, api_key="none", max_retries=0, timeout=60) as client:
        if stream:
            with client.messages.stream(**request) as events:
                shown = "".join(events.text_stream)
                message = events.get_final_message()
            assert shown == WORDS
        else:
            message = client.messages.create(**request)
    assert bench.model.faults == []
    assert message.stop_reason == "end_turn"
    assert [(block.type, block.text) for block in message.content] == [("text", WORDS)]


@pytest.mark.parametrize("server", TRANSPORTS)
def test_text(bench, server):
    assert bench.told("Say it.", "echo", mcp=server, message="Grüße, Zürich 😀") == "Echo: Grüße, Zürich 😀"
    assert bench.told("Add.", "get-sum", mcp=server, a=2, b=40.5) == "The sum of 2 and 40.5 is 42.5."
    # The other servers were left out.
    assert "read_text_file" not in bench.model.offered()


@pytest.mark.parametrize("server", TRANSPORTS)
def test_structured_content(bench, server):
    weather = json.loads(bench.told("How is it?", "get-structured-content", mcp=server, location="New York"))
    assert weather == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}


@pytest.mark.parametrize("server", TRANSPORTS)
def test_an_image_is_a_note(bench, server):
    said = bench.told("Show it.", "get-tiny-image", mcp=server)
    assert "Here's the image you requested:" in said and "The image above is the MCP logo." in said
    assert "image/png" in said
    # A PNG in base64 begins like this.
    assert "iVBORw0KGgo" not in said


@pytest.mark.parametrize("server", TRANSPORTS)
def test_embedded_resources_and_links(bench, server):
    said = bench.told("Show it.", "get-resource-reference", mcp=server, resourceType="Text", resourceId=1)
    assert "demo://resource/dynamic/text/1" in said and "Resource 1: This is a plaintext resource" in said
    said = bench.told("Show it.", "get-resource-reference", mcp=server, resourceType="Blob", resourceId=2)
    assert "demo://resource/dynamic/blob/2" in said
    said = bench.told("Show them.", "get-resource-links", mcp=server, count=2)
    assert "demo://resource/dynamic/blob/1" in said and "demo://resource/dynamic/text/2" in said


@pytest.mark.parametrize("server", TRANSPORTS)
def test_progress_comes_as_comments(bench, server):
    bench.model.says(call("trigger-long-running-operation", duration=1, steps=4), TELLS)
    connection = http.client.HTTPConnection(bench.toolgate.url.removeprefix("http://"), timeout=30)
    body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "Do it."}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json", "x-toolgate-mcp": server})
    frames = connection.getresponse().read().decode().split("\n\n")
    connection.close()
    assert bench.model.faults == []
    comments = [frame for frame in frames if frame.startswith(":")]
    assert len([comment for comment in comments if re.search(r"\b[1-4]\b.*\b4\b", comment)]) >= 3, comments
    assert "Long running operation completed. Duration: 1 seconds, Steps: 4." in bench.model.results()


def test_a_server_sees_of_the_environment_what_it_needs(bench):
    environment = json.loads(bench.told("What do you see?", "get-env", mcp="everything"))
    assert environment.pop("CONFIGURED") == "by the file"
    assert environment.pop("TOOLGATE_TEST_RUN") == bench.toolgate.mark
    every_program_needs = {"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
    assert environment.keys() <= every_program_needs
    assert environment["PATH"].startswith(os.environ["MCP_SERVERS"])


def test_what_a_server_keeps_is_there_for_the_next_request(bench):
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts gulls"]}
    bench.told("Ada counts gulls.", "create_entities", entities=[ada])
    graph = json.loads(bench.told("Who counts gulls?", "search_nodes", query="gulls"))
    assert graph == {"entities": [ada], "relations": []}
    assert "counts gulls" in bench.memory.read_text()


def test_time_is_converted(bench):
    arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    said = json.loads(bench.told("It is noon in Tokyo.", "convert_time", **arguments))
    assert re.fullmatch(r"[0-9-]+T08:30:00\+05:30", said["target"]["datetime"])
    assert said["time_difference"] == "-3.5h"


def test_calls_of_one_reply_go_to_their_servers(bench):
    repository = str(bench.repository)
    bench.model.says(
        calls(("git_log", {"repo_path": repository}), ("git_status", {"repo_path": repository}), ("read_text_file", {"path": "README.md"})),
        "All is read.",
    )
    [choice] = bench.ask("What happened?").choices
    assert choice.message.content == "All is read."
    log, status, file = bench.model.results()
    assert "Author: Ada" in log and "Message: Count the gulls" in log
    assert "modified:   gulls.txt" in status
    assert file == WORDS


def test_a_tool_that_fails_says_why_to_the_model(bench):
    said = bench.told("Read it.", "read_text_file", path="/etc/passwd")
    assert "Access denied" in said and "root:" not in said
    said = bench.told("What time is it?", "get_current_time", timezone="Nowhere/At_All")
    assert "Invalid timezone" in said


def test_tools_that_come_later_are_offered(bench):
    # The server adds this one when the greeting is over, and announces it.
    said = bench.told("Find out.", "simulate-research-query", mcp="everything", topic="gulls")
    assert "task" in said


def test_all_tools_are_listed(bench):
    bench.told("Say it.", "echo", message="now all servers are there")
    listed = bench.toolgate.get("/tools")
    tools = {tool["name"]: tool for tool in listed["tools"]}
    assert listed["count"] == len(listed["tools"]) == len(tools)
    of = {server: {name for name, tool in tools.items() if server in servers_of(tool)} for server in COUNTS}
    assert {server: len(names) for server, names in of.items()} == COUNTS
    assert of["everything"] == of["remote"]
    # What the servers say comes through.
    assert tools["read_text_file"]["input_schema"]["required"] == ["path"]
    assert "Read the complete contents of a file" in tools["read_text_file"]["description"]
    [place] = tools["write_file"]["servers"]
    assert place["annotations"] == {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
    assert (place["server"], place["tool"], place["state"]) == ("filesystem", "write_file", "ready")
    # And what the model is offered is this list.
    assert set(bench.model.offered()) - {"respond"} == tools.keys()


# How many tools each server has in the versions that are installed.
COUNTS = {"filesystem": 14, "everything": 13, "remote": 13, "memory": 9, "time": 2, "git": 12}


def servers_of(tool):
    return [place["server"] for place in tool["servers"]]


def test_the_clients_own_tools_come_to_the_client(bench):
    """In one reply the model calls a tool of a server and one of the client's: each is run where it is at home."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": city}}]
    messages = [{"role": "user", "content": "What does README.md say, and how is the weather in Zürich?"}]
    bench.model.says(calls(("read_text_file", {"path": "README.md"}), ("get_weather", {"city": "Zürich"})), "All is known.")
    [choice] = bench.client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices
    assert choice.finish_reason == "tool_calls"
    [called] = choice.message.tool_calls
    assert (called.function.name, json.loads(called.function.arguments)) == ("get_weather", {"city": "Zürich"})
    messages += [choice.message.to_dict(), {"role": "tool", "tool_call_id": called.id, "content": "18 degrees"}]
    [choice] = bench.client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices
    assert bench.model.faults == []
    assert (choice.message.content, choice.finish_reason) == ("All is known.", "stop")
    assert bench.model.results() == [WORDS, "18 degrees"]


def test_a_dry_run_leaves_everything_as_it_is(bench):
    bench.model.says(call("write_file", path=str(bench.files / "new.txt"), content="new"), "It is written.")
    headers = {"x-toolgate-dry-run": "1"}
    messages = [{"role": "user", "content": "Write new.txt."}]
    completion = bench.client.chat.completions.create(model="scripted", messages=messages, extra_headers=headers)
    [record] = completion.toolgate["calls"]
    assert (record["server"], record["tool"], record["dry_run"], record["executed"]) == ("filesystem", "write_file", True, False)
    assert not (bench.files / "new.txt").exists()
    # And without the header it is done.
    bench.told("Write new.txt.", "write_file", path=str(bench.files / "new.txt"), content="new")
    assert (bench.files / "new.txt").read_text() == "new"


def test_a_server_is_chosen_by_its_name(bench):
    for server in TRANSPORTS:
        bench.model.says(call("echo", message="hi"), TELLS)
        completion = bench.ask(f"Say hi with the {server} server.", explain=True)
        [record] = completion.toolgate["calls"]
        assert (record["server"], record["selection_rule"], record["success"]) == (server, "explicit-mention", True)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["asked to end", "killed"])
def test_no_server_outlives_toolgate(bench, tmp_path, how):
    servers = {"everything": stdio("everything"), "memory": stdio("memory"), "time": stdio("time"), "git": stdio("git")}
    toolgate = Toolgate(tmp_path, bench.model.url, servers)
    try:
        wait_until(lambda: len(toolgate.servers()) >= 4, "the servers do not start", 30)
        toolgate.process.send_signal(how)
        code = toolgate.process.wait(20)
        if how == signal.SIGTERM:
            assert code == 0, toolgate.end_of_log()
            assert toolgate.servers() == {}
        else:
            # Nobody ends them then, but they see that nobody speaks to them any more.
            wait_until(lambda: toolgate.servers() == {}, "there are still servers", 30)
    finally:
        toolgate.process.kill()
        toolgate.process.wait()
        for process in toolgate.servers():
            os.kill(process, signal.SIGKILL)


def test_a_server_that_was_killed_serves_again(bench):
    [process] = [process for process, command in bench.toolgate.servers().items() if "mcp-server-time" in command]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: process not in bench.toolgate.servers(), "it does not die")
    wait_until(lambda: any("mcp-server-time" in command for command in bench.toolgate.servers().values()), "it is not started again")
    bench.told("What time is it?", "get_current_time", timezone="Asia/Tokyo")
