"""Keys, as the official packages for Python send them and read what is said of them, through toolgate, in front of a scripted backend."""

import os

import anthropic
import openai
import pytest

URL = os.environ["KEYS_TOOLGATE_URL"]
FULL, NARROW, OLD = (os.environ[f"KEYS_{name}"] for name in ("FULL", "NARROW", "OLD"))
# Longer than what a socket takes at once: an answer that comes before the request is read is an answer all the same.
LENGTHS = [1, 200_000, 12_000_000]
MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]


def openai_client(key):
    # Retries would hide a fault.
    return openai.OpenAI(base_url=URL + "/v1", api_key=key, max_retries=0, timeout=30)


def complete(client, model="weather", messages=MESSAGES, **more):
    return client.chat.completions.create(model=model, messages=messages, tools=TOOLS, **more)


@pytest.mark.parametrize("key", [FULL, NARROW])
def test_a_good_key(key):
    with openai_client(key) as client:
        assert complete(client).choices[0].message.tool_calls[0].function.name == "get_weather"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("key", "code"), [("tg_wrong", "invalid_api_key"), (OLD, "api_key_expired")])
def test_a_key_that_is_no_good(key, code, stream):
    with openai_client(key) as client, pytest.raises(openai.AuthenticationError) as caught:
        complete(client, stream=stream)
    error = caught.value
    assert (error.status_code, error.code, error.type) == (401, code, "invalid_request_error")
    assert set(error.body) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("length", LENGTHS)
def test_a_long_request_is_told_too(length):
    with openai_client("tg_wrong") as client:
        for _ in range(3):
            with pytest.raises(openai.AuthenticationError):
                complete(client, messages=[{"role": "user", "content": "x" * length}])


def test_a_model_that_may_not_be_used():
    with openai_client(NARROW) as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            complete(client, model="respond")
        error = caught.value
        assert (error.status_code, error.code, error.param) == (403, "model_not_allowed", "model")
        with pytest.raises(openai.PermissionDeniedError):
            client.responses.create(model="respond", input="Hello")
        # The connection is as good as before.
        assert complete(client).choices[0].message.tool_calls


@pytest.mark.parametrize("way", ["api_key", "auth_token"])
def test_anthropics_client(way):
    def ask(key, model):
        with anthropic.Anthropic(base_url=URL, max_retries=0, timeout=30, **{way: key}) as client:
            tools = [{"name": "get_weather", "input_schema": CITY}]
            return client.messages.create(model=model, max_tokens=99, messages=MESSAGES, tools=tools)

    assert ask(FULL, "weather").stop_reason == "tool_use"
    with pytest.raises(anthropic.AuthenticationError) as caught:
        ask(OLD, "weather")
    assert caught.value.body["error"]["type"] == "authentication_error"
    assert "expired" in caught.value.body["error"]["message"]
    with pytest.raises(anthropic.PermissionDeniedError) as caught:
        ask(NARROW, "respond")
    assert caught.value.body["error"]["type"] == "permission_error"
