"""The official OpenAI package for Python, through toolgate, in front of a real model.

Every answer is checked for what a strictly typed client relies on. What the model says is asserted only where any sane build of
it agrees: at temperature 0 a question about the weather in Paris is a call of get_weather for Paris.
"""

import json
import os

import openai
import pytest

WEATHER_QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
GREETING = {"role": "user", "content": "Say hello."}
GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "strict": True,  # The .stream() helper parses the arguments of strict tools only.
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
# Small, because the model is slow; the seed is for the odd build that samples at temperature 0.
LIMITS = {"temperature": 0, "seed": 1, "max_tokens": 96}
FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter"}


@pytest.fixture(scope="module")
def client():
    # Retries would hide a fault.
    with openai.OpenAI(base_url=os.environ["TOOLGATE_URL"] + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def check_usage(usage):
    for count in (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens):
        assert type(count) is int and count > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def check_call(call):
    assert type(call.id) is str and call.id
    assert call.type == "function"
    assert type(call.function.name) is str
    assert type(call.function.arguments) is str
    assert type(json.loads(call.function.arguments)) is dict


def check_message(choice):
    message = choice.message
    assert message.role == "assistant"
    assert choice.finish_reason in FINISH_REASONS
    if message.tool_calls is None:
        assert type(message.content) is str
        assert choice.finish_reason != "tool_calls"
        return
    assert message.tool_calls, "an empty list of calls is neither an answer nor a call"
    assert choice.finish_reason == "tool_calls"
    for call in message.tool_calls:
        check_call(call)
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)


def check_completion(completion):
    assert type(completion.id) is str and completion.id
    assert completion.object == "chat.completion"
    assert type(completion.created) is int
    assert type(completion.model) is str and completion.model
    assert [choice.index for choice in completion.choices] == [0]
    check_message(completion.choices[0])
    check_usage(completion.usage)
    return completion.choices[0]


def check_chunks(chunks, *, with_usage, guarded):
    """Checks the order that the chunks of one answer must have; returns its content, its calls and its finish reason."""
    assert len({chunk.id for chunk in chunks}) == 1
    assert len({chunk.model for chunk in chunks}) == 1
    if guarded:
        # Without tools the backend's own chunks come through, and llama-server stamps each with the time it was made.
        assert len({chunk.created for chunk in chunks}) == 1
    for chunk in chunks:
        assert type(chunk.id) is str and chunk.id
        assert chunk.object == "chat.completion.chunk"
        assert type(chunk.created) is int
        assert type(chunk.model) is str and chunk.model

    if with_usage:
        last = chunks.pop()
        assert last.choices == []
        check_usage(last.usage)
    assert all(chunk.usage is None for chunk in chunks)
    assert all([choice.index for choice in chunk.choices] == [0] for chunk in chunks)

    choices = [chunk.choices[0] for chunk in chunks]
    deltas = [choice.delta for choice in choices]
    assert deltas[0].role == "assistant"
    assert all(delta.role is None for delta in deltas[1:])

    reasons = [choice.finish_reason for choice in choices]
    assert reasons[-1] in FINISH_REASONS
    assert all(reason is None for reason in reasons[:-1])
    assert not deltas[-1].content and not deltas[-1].tool_calls

    content = "".join(delta.content or "" for delta in deltas)
    return content, check_call_deltas(deltas), reasons[-1]


def check_call_deltas(deltas):
    calls = []
    for part in (part for delta in deltas for part in delta.tool_calls or []):
        assert type(part.index) is int
        if part.index == len(calls):
            assert type(part.id) is str and part.id
            assert part.type == "function"
            assert type(part.function.name) is str and part.function.name
            calls.append({"name": part.function.name, "arguments": part.function.arguments or ""})
        else:
            # Later parts belong to the last call: indices count up from 0, and nothing is said of a call twice.
            assert part.index == len(calls) - 1
            assert part.id is None and part.type is None and part.function.name is None
            assert type(part.function.arguments) is str
            calls[-1]["arguments"] += part.function.arguments
    return calls


def check_weather_call(name, arguments):
    assert name == "get_weather"
    assert "Paris" in json.loads(arguments)["city"]


def test_models(client):
    models = client.models.list().data
    assert models
    for model in models:
        assert type(model.id) is str and model.id
        assert model.object == "model"


def test_plain(client, model):
    completion = client.chat.completions.create(model=model, messages=[GREETING], **LIMITS)
    choice = check_completion(completion)
    assert choice.message.content
    assert choice.message.tool_calls is None


@pytest.mark.parametrize("with_usage", [False, True])
def test_plain_streamed(client, model, with_usage):
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    chunks = list(client.chat.completions.create(model=model, messages=[GREETING], stream=True, **options, **LIMITS))
    content, calls, reason = check_chunks(chunks, with_usage=with_usage, guarded=False)
    assert content and not calls
    assert reason in ("stop", "length")


def test_tool_call(client, model):
    completion = client.chat.completions.create(model=model, messages=[WEATHER_QUESTION], tools=[GET_WEATHER], **LIMITS)
    choice = check_completion(completion)
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    function = choice.message.tool_calls[0].function
    check_weather_call(function.name, function.arguments)


@pytest.mark.parametrize("with_usage", [False, True])
def test_tool_call_streamed(client, model, with_usage):
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    chunks = list(
        client.chat.completions.create(
            model=model, messages=[WEATHER_QUESTION], tools=[GET_WEATHER], stream=True, **options, **LIMITS
        )
    )
    content, calls, reason = check_chunks(chunks, with_usage=with_usage, guarded=True)
    assert content == ""
    assert reason == "tool_calls"
    check_weather_call(**calls[0])


def test_tool_call_with_the_stream_helper(client, model):
    with client.chat.completions.stream(model=model, messages=[WEATHER_QUESTION], tools=[GET_WEATHER], **LIMITS) as stream:
        events = [event.type for event in stream]
        completion = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in events
    assert completion.choices[0].finish_reason == "tool_calls"
    check_message(completion.choices[0])
    function = completion.choices[0].message.tool_calls[0].function
    check_weather_call(function.name, function.arguments)
    assert "Paris" in function.parsed_arguments["city"]


def test_text_with_the_stream_helper(client, model):
    with client.chat.completions.stream(model=model, messages=[GREETING], **LIMITS) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        completion = stream.get_final_completion()
    assert text and completion.choices[0].message.content == text


@pytest.mark.parametrize("stream", [False, True])
def test_follow_up_with_a_tool_result(client, model, stream):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        WEATHER_QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature_celsius": 18, "sky": "sunny"}'},
    ]
    answer = client.chat.completions.create(model=model, messages=messages, tools=[GET_WEATHER], stream=stream, **LIMITS)
    # A model this small may call again instead of answering: both are answers of the right form.
    if stream:
        content, calls, reason = check_chunks(list(answer), with_usage=False, guarded=True)
        assert content or calls
        assert (reason == "tool_calls") == bool(calls)
    else:
        choice = check_completion(answer)
        assert choice.message.content or choice.message.tool_calls


@pytest.mark.parametrize("tools", [[], [GET_WEATHER]])
def test_bad_request(client, model, tools):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages="not a list", tools=tools)
    error = caught.value
    assert error.status_code == 400
    assert error.param == "messages"
    assert error.type == "invalid_request_error"
    assert "messages" in error.body["message"]
    assert set(error.body) >= {"message", "type", "param", "code"}
