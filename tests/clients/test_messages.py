"""Messages as Anthropic's own client for Python reads them, whole and streamed, through toolgate, in front of a scripted backend."""

import os

import anthropic
import pytest

# As scripted_backend.py says them.
TEXT = 'She said "hello"\\ in Zürich 😀\nand left.'
REASONING = "They only want to chat 🤔."
USAGE = (7, 5)

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
REQUEST = {
    "max_tokens": 2048,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [{"name": "get_weather", "description": "Get the current weather of a city.", "input_schema": CITY}],
}
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture(scope="module")
def client():
    # Retries would hide a fault.
    with anthropic.Anthropic(base_url=os.environ["SCRIPTED_TOOLGATE_URL"], api_key="none", max_retries=0, timeout=30) as client:
        yield client


def create(client, script, shown, **more):
    return client.messages.create(model=script, **REQUEST, **more)


def stream(client, script, shown, **more):
    with client.messages.stream(model=script, **REQUEST, **more) as stream:
        for event in stream:
            if event.type == "text":
                shown.append(event.text)
        return stream.get_final_message()


def beta_stream(client, script, shown, **more):
    betas = ["interleaved-thinking-2025-05-14", "context-management-2025-06-27"]
    with client.beta.messages.stream(model=script, betas=betas, **REQUEST, **more) as stream:
        for event in stream:
            if event.type == "text":
                shown.append(event.text)
        return stream.get_final_message()


@pytest.fixture(params=[create, stream, beta_stream], ids=lambda way: way.__name__)
def ask(request, client):
    """A question in each way, with what was shown on the way."""

    def ask(script, **more):
        shown = []
        message = request.param(client, script, shown, **more)
        assert message.id.startswith("msg_") and (message.type, message.role, message.model) == ("message", "assistant", script)
        text = "".join(block.text for block in message.content if block.type == "text")
        assert request.param is create or "".join(shown) == text
        return message

    return ask


def test_what_the_model_says_through_respond_is_text(ask):
    message = ask("respond")
    [block] = message.content
    assert (block.type, block.text, message.stop_reason) == ("text", TEXT, "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == USAGE


def test_a_tool_call(ask):
    message = ask("weather")
    [block] = message.content
    assert (block.type, block.name, block.input, message.stop_reason) == ("tool_use", "get_weather", {"city": "Paris"}, "tool_use")


def test_thinking_stands_apart_from_the_text(ask):
    thinking, text = ask("reasoning", thinking=THINKING).content
    assert (thinking.type, thinking.thinking, text.text) == ("thinking", REASONING, TEXT)
    [text] = ask("reasoning").content
    assert text.text == TEXT


def test_a_corrected_attempt_is_not_seen(ask):
    [block] = ask("unknown-tool-first").content
    assert (block.type, block.input) == ("tool_use", {"city": "Paris"})


def test_an_answer_goes_on_in_the_next_request(client):
    """What the client made of an answer is what it sends back."""
    first = client.messages.create(model="weather", thinking=THINKING, **REQUEST)
    [call] = [block for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "rain"}]}
    messages = [*REQUEST["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(model="respond", **{**REQUEST, "messages": messages})
    assert second.content[0].text == TEXT and second.id != first.id


def test_tokens_are_counted(client):
    counted = client.messages.count_tokens(model="any", **{name: REQUEST[name] for name in ("system", "messages", "tools")})
    assert 30 < counted.input_tokens < 200


@pytest.mark.parametrize("script", ["cut", "refuse-late"])
def test_a_failure_in_a_stream_is_an_error(client, script):
    shown = []
    with pytest.raises(anthropic.APIStatusError, match={"cut": "connection broke", "refuse-late": "the model fell over"}[script]) as caught:
        stream(client, script, shown)
    assert caught.value.body["error"]["type"] == "api_error"
    text = "".join(shown)
    assert (text and TEXT.startswith(text) and text != TEXT) if script == "cut" else text == ""


@pytest.mark.parametrize(("script", "status", "message"), [("refuse", 500, "fell over"), ("hang-up", 502, "connection broke")])
def test_an_error_before_anything_was_shown_has_its_status(ask, script, status, message):
    with pytest.raises(anthropic.InternalServerError, match=message) as caught:
        ask(script)
    error = caught.value
    assert (error.status_code, error.body["type"]) == (status, "error")
    assert error.request_id == error.body["request_id"] and error.request_id.startswith("req_")


def test_a_fault_of_the_request_is_named(client):
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.0\.content\.0\.text"):
        client.messages.create(model="respond", max_tokens=9, messages=[{"role": "user", "content": [{"type": "text"}]}])
