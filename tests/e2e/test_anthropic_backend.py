"""toolgate over the Messages API of a real llama-server: what an OpenAI client sees is what it sees over chat completions."""

import json
import os

import pytest
from conftest import Server
from test_real_model import GET_WEATHER, check_error, check_paris_call, check_usage, question, weather


@pytest.fixture(scope="session")
def toolgate():
    """A toolgate whose backend is of kind "anthropic"."""
    return Server(os.environ["ANTHROPIC_TOOLGATE_URL"])


def test_it_is_the_messages_api_that_answers(toolgate):
    [backend] = toolgate.get("/health").json["backends"]
    assert (backend["kind"], backend["status"]) == ("anthropic", "ready")


def test_text_becomes_a_call(toolgate):
    answer = toolgate.chat(weather())
    assert answer.status == 200
    check_paris_call(answer.choice)
    assert answer.headers["x-toolgate-guardrail"] in ("rescued", "nudged")
    check_usage(answer.json["usage"])


def test_a_result_is_read_by_the_model(toolgate):
    call = {"id": "call.1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call.1", "content": "17 degrees and raining"},
    ]
    answer = toolgate.chat(weather(messages=messages))
    assert answer.status == 200
    assert "17" in answer.choice["message"]["content"]


def test_a_stream_and_a_whole_answer_say_the_same(toolgate):
    asked = question("Count from 1 to 5.")
    whole = toolgate.chat(asked)
    stream = toolgate.chat({**asked, "stream": True, "stream_options": {"include_usage": True}})
    assert stream.headers["content-type"] == "text/event-stream"
    frames = [line[6:] for line in stream.body.decode().splitlines() if line.startswith("data: ")]
    assert frames.pop() == "[DONE]"
    chunks = [json.loads(frame) for frame in frames]
    said = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert said == whole.choice["message"]["content"] and "5" in said
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]][-1] == "stop"
    check_usage(chunks[-1]["usage"])


def test_tokens_from_the_cache_are_counted_among_the_prompts(toolgate, llama):
    asked = question("Say hello to me, please.", max_tokens=4)
    counted = llama.send("POST", "/v1/messages/count_tokens", {"model": "any", "messages": asked["messages"]}).getresponse()
    expected = json.loads(counted.read())["input_tokens"]
    first, second = toolgate.chat(asked), toolgate.chat(asked)
    assert [answer.json["usage"]["prompt_tokens"] for answer in (first, second)] == [expected, expected]
    assert second.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert first.choice["finish_reason"] == "length"


def test_tools_are_withheld_where_none_is_wanted(toolgate):
    answer = toolgate.chat(question("Say only the word hello.", tools=[GET_WEATHER], tool_choice="none"))
    assert answer.choice["finish_reason"] == "stop" and not answer.choice["message"].get("tool_calls")


def test_the_servers_refusal_is_an_openai_error(toolgate):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    answer = toolgate.chat({"model": "any", "messages": [{"role": "user", "content": [image]}]})
    assert "image" in check_error(answer, answer.status)["message"] and answer.status >= 400


def test_what_the_api_cannot_be_asked_is_refused(toolgate):
    assert check_error(toolgate.chat(question("hi", n=2)), 400)["param"] == "n"
