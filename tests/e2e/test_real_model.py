"""toolgate over a real llama-server and a small real model: each guardrail seen at work, and what it must leave alone.

A model this small writes its tool calls as JSON in the text, which llama-server does not parse. The tests assert what any sane
build of it does at temperature 0, never its exact words.
"""

import json
import signal
import time

import pytest
from conftest import free_port

GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ERROR_KEYS = {"message", "type", "param", "code"}


def question(text, **fields):
    # Without the prompt cache an answer does not depend on what was asked before: batches of another size round differently.
    limits = {"model": "any", "temperature": 0, "seed": 1, "max_tokens": 96, "cache_prompt": False}
    return {**limits, "messages": [{"role": "user", "content": text}], **fields}


def weather(**fields):
    return question("What is the weather in Paris?", **{"tools": [GET_WEATHER], **fields})


def check_error(answer, status):
    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/json")
    assert set(answer.json) == {"error"}
    error = answer.json["error"]
    assert set(error) >= ERROR_KEYS
    assert type(error["message"]) is str and error["message"]
    assert type(error["type"]) is str and error["type"]
    return error


def check_usage(usage):
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def check_paris_call(choice):
    assert choice["finish_reason"] == "tool_calls"
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert "Paris" in json.loads(call["function"]["arguments"])["city"]


def test_the_backend_alone_answers_with_text(llama):
    choice = llama.chat(weather()).choice
    assert not choice["message"].get("tool_calls")
    assert "get_weather" in choice["message"]["content"]


def test_toolgate_makes_it_a_call(toolgate):
    answer = toolgate.chat(weather())
    assert answer.status == 200
    check_paris_call(answer.choice)
    assert answer.choice["message"]["content"] is None
    assert answer.headers["x-toolgate-guardrail"] in ("rescued", "nudged")
    assert int(answer.headers["x-toolgate-attempts"]) >= 1
    assert answer.headers["x-request-id"]
    assert "toolgate" not in answer.json, "the explanation comes only when it is asked for"


def test_a_guarded_answer_has_the_complete_shape(toolgate):
    answer = toolgate.chat(weather()).json
    assert {"id", "object", "created", "model", "choices", "usage"} <= set(answer)
    assert {"index", "message", "finish_reason", "logprobs"} <= set(answer["choices"][0])
    assert {"role", "content", "refusal", "annotations", "tool_calls"} <= set(answer["choices"][0]["message"])
    check_usage(answer["usage"])


def test_a_guarded_stream_is_well_formed(toolgate):
    answer = toolgate.chat(weather(stream=True), {"x-toolgate-explain": "1"})
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    *frames, done, end = answer.body.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    events = [frame for frame in frames if not frame.startswith(":")]
    assert all(event.startswith("data: ") for event in events)
    chunks = [json.loads(event[6:]) for event in events]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    # The head has left before the model was done: the explanation comes at the end.
    [report] = [chunk["toolgate"] for chunk in chunks if "toolgate" in chunk]
    assert report["guardrail"] in ("rescued", "nudged")


def test_explain_says_what_happened(toolgate):
    answer = toolgate.chat(weather(), {"x-toolgate-explain": "1"})
    check_paris_call(answer.choice)
    attempts = answer.json["toolgate"]["attempts"]
    assert len(attempts) == int(answer.headers["x-toolgate-attempts"])


def test_guardrails_that_are_off_leave_the_text(toolgate):
    answer = toolgate.chat(weather(), {"x-toolgate-disable": "all"})
    assert answer.status == 200
    assert not answer.choice["message"].get("tool_calls")
    assert "get_weather" in answer.choice["message"]["content"]


def test_a_single_guardrail_switches_off(toolgate):
    answer = toolgate.chat(weather(), {"x-toolgate-disable": "rescue, nudge"})
    assert answer.status == 200
    assert answer.headers["x-toolgate-attempts"] == "1"
    assert not answer.choice["message"].get("tool_calls")


def test_without_tools_the_answer_is_the_backends_own(toolgate, llama):
    answers = [server.chat(question("Say hello.")).json for server in (toolgate, llama)]
    for answer in answers:
        for key in ("id", "created", "timings"):  # These differ from one answer of the backend to the next.
            answer.pop(key, None)
    # As text, so that the order of the keys counts too.
    assert json.dumps(answers[0]) == json.dumps(answers[1])
    assert answers[0]["choices"][0]["message"]["content"]


def test_no_call_where_none_is_allowed(toolgate):
    answer = toolgate.chat(weather(tool_choice="none"))
    assert answer.status == 200
    assert answer.choice["finish_reason"] in ("stop", "length")
    assert not answer.choice["message"].get("tool_calls")
    assert answer.choice["message"]["content"]


def test_required_alone_is_no_help_upstream(llama):
    # The server forbids the end of the text until its own form of a call comes, and this model knows another: it goes on to the limit.
    answer = llama.chat(weather(tool_choice="required", max_tokens=120))
    assert answer.status == 200
    assert answer.choice["finish_reason"] == "length"
    assert not answer.choice["message"].get("tool_calls")


@pytest.mark.parametrize("tool_choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_where_one_is_required(toolgate, tool_choice):
    answer = toolgate.chat(weather(tool_choice=tool_choice))
    assert answer.status == 200
    check_paris_call(answer.choice)
    check_usage(answer.json["usage"])


def test_a_greeting_gets_text_or_a_valid_call(toolgate):
    answer = toolgate.chat(question("Say hello", tools=[GET_WEATHER]))
    assert answer.status == 200
    message = answer.choice["message"]
    for call in message.get("tool_calls") or []:
        assert call["function"]["name"] == "get_weather"
        assert type(json.loads(call["function"]["arguments"])["city"]) is str
    assert message["content"] or message["tool_calls"]
    check_usage(answer.json["usage"])


def test_a_truncated_answer_says_so(toolgate):
    answer = toolgate.chat(weather(max_tokens=3))
    assert answer.status == 200
    assert answer.choice["finish_reason"] == "length"
    assert not answer.choice["message"].get("tool_calls")
    assert answer.json["usage"]["completion_tokens"] <= 3 * int(answer.headers["x-toolgate-attempts"])


def test_a_refusal_of_the_backend_keeps_its_status(toolgate):
    error = check_error(toolgate.chat(weather(temperature="hot")), 400)
    assert "temperature" in error["message"]


@pytest.mark.parametrize("path", ["/nothing", "/v2/chat/completions"])
def test_an_unknown_path_is_404(toolgate, path):
    check_error(toolgate.get(path), 404)


@pytest.mark.parametrize("tools", [[], [GET_WEATHER]])
def test_a_dead_backend_is_502(start_toolgate, tools):
    server, _ = start_toolgate(f"http://127.0.0.1:{free_port()}")
    assert server.get("/health/live").status == 200
    assert server.get("/health/ready").status == 503
    check_error(server.chat(weather(tools=tools)), 502)


@pytest.mark.parametrize("fields", [{"stream": True, "tools": []}, {}], ids=["passed through", "guarded"])
def test_a_stop_lets_running_answers_finish(start_toolgate, llama, fields):
    server, process = start_toolgate(llama.url)
    connection = server.send("POST", "/v1/chat/completions", weather(**fields))
    # Time for the request to arrive; the model needs longer than this to answer.
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200
    if fields:
        assert body.endswith(b"data: [DONE]\n\n")
    else:
        check_paris_call(json.loads(body)["choices"][0])
    connection.close()
    assert process.wait(timeout=10) == 0
    with pytest.raises(ConnectionRefusedError):
        server.get("/health/live")


def tokens_under_way(llama):
    """How many tokens the slots that work have generated."""
    return sum(part["n_decoded"] for slot in llama.get("/slots").json if slot["is_processing"] for part in slot["next_token"])


def wait_until(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        # llama-server looks whether a client is still there when it had no result to hand out for a second, and the slots' state is one:
        # asking more often would keep it from looking.
        time.sleep(1.5)


@pytest.mark.parametrize("tools", [[], [GET_WEATHER]], ids=["passed through", "guarded"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_leaves_stops_the_model(toolgate, llama, tools, stream):
    # Far longer than the test waits, whatever the model has to say.
    long = question("Count from one to ten thousand in words.", max_tokens=2000, ignore_eos=True, stream=stream, tools=tools)
    connection = toolgate.send("POST", "/v1/chat/completions", long)
    # llama-server itself does not notice a client that leaves while it reads the prompt.
    wait_until(lambda: tokens_under_way(llama) > 0, "the model does not begin")
    connection.close()
    left = time.monotonic()
    wait_until(lambda: not any(slot["is_processing"] for slot in llama.get("/slots").json), "the model does not stop")
    assert time.monotonic() - left < 10
