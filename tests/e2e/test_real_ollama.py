"""toolgate over a real Ollama and a small real model, asked by the official OpenAI package for Python.

One model under four names, which differ in the template alone (tests/real/ollama): of TEXT Ollama does not read the calls, because the
model writes them otherwise than its template says; of READ it reads them; PLAIN has a template without tools, and Ollama refuses a
request with tools for it; THINKING thinks first. Asserted is what a user relies on, at temperature 0, never the model's exact words.
"""

import json
import os
import time

import openai
import pytest
from conftest import Server

TEXT, READ, PLAIN, THINKING = "qwen2.5-coder:0.5b", "fenced:0.5b", "plain:0.5b", "thinking:0.5b"
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
GET_TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Get the local time of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PERSON = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    },
}
LIMITS = {"temperature": 0, "seed": 1, "max_tokens": 96}
# As a client sends it back: the arguments are a string, and there is no text.
CALL_AND_RESULT = [
    QUESTION,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees, light rain"},
    {"role": "user", "content": "How many degrees is that? Answer in one sentence."},
]

both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
with_calls = pytest.mark.parametrize("model", [TEXT, READ], ids=["call as text", "call read by Ollama"])


@pytest.fixture(scope="module")
def client():
    # Retries would hide a fault.
    with openai.OpenAI(base_url=os.environ["OLLAMA_TOOLGATE_URL"] + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def gate():
    return Server(os.environ["OLLAMA_TOOLGATE_URL"])


@pytest.fixture(scope="module")
def ollama():
    """The backend itself, for what toolgate is compared with."""
    return Server(os.environ["OLLAMA_URL"])


def ask(client, stream=False, **fields):
    """One answer as a whole, put together by the package where it is streamed."""
    fields = {"model": TEXT, "messages": [QUESTION], **LIMITS, **fields}
    if not stream:
        return client.chat.completions.create(**fields)
    with client.chat.completions.stream(stream_options={"include_usage": True}, **fields) as events:
        for _ in events:
            pass
        try:
            return events.get_final_completion()
        except openai.LengthFinishReasonError as cut:
            return cut.completion


def check_answer(completion, model):
    assert completion.model == model
    assert completion.object == "chat.completion"
    assert type(completion.id) is str and completion.id
    [choice] = completion.choices
    usage = completion.usage
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return choice


def check_call(choice, name="get_weather"):
    assert choice.finish_reason == "tool_calls", "Ollama itself says stop"
    [call] = choice.message.tool_calls
    assert call.type == "function" and call.id
    assert call.function.name == name
    return json.loads(call.function.arguments)


def test_ollama_alone_leaves_the_call_in_the_text(ollama):
    # What toolgate is here for. READ shows that it is no fault of the server's.
    answers = {model: ollama.chat({"model": model, "messages": [QUESTION], "tools": [GET_WEATHER], **LIMITS}) for model in (TEXT, READ)}
    message = answers[TEXT].choice["message"]
    assert not message.get("tool_calls")
    assert "get_weather" in message["content"]
    [call] = answers[READ].choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"


@both
@with_calls
def test_the_weather_in_paris_is_a_call(client, model, stream):
    completion = ask(client, stream, model=model, tools=[GET_WEATHER])
    arguments = check_call(check_answer(completion, model))
    assert "Paris" in arguments["city"]
    assert not completion.choices[0].message.content


@both
@with_calls
def test_a_result_is_answered_in_words(client, model, stream):
    # Where it may, a model this small calls again instead of answering.
    completion = ask(client, stream, model=model, messages=CALL_AND_RESULT, tools=[GET_WEATHER], tool_choice="none")
    choice = check_answer(completion, model)
    assert choice.finish_reason == "stop"
    assert not choice.message.tool_calls
    assert "18" in choice.message.content


def test_a_conversation_goes_on_with_the_answers_own_message(client):
    first = check_answer(ask(client, tools=[GET_WEATHER]), TEXT)
    [call] = first.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees, light rain"}
    messages = [QUESTION, first.message.model_dump(exclude_none=True), result, CALL_AND_RESULT[-1]]
    choice = check_answer(ask(client, messages=messages, tools=[GET_WEATHER], tool_choice="none"), TEXT)
    assert "18" in choice.message.content


@both
@with_calls
def test_no_call_where_none_is_allowed(client, model, stream):
    choice = check_answer(ask(client, stream, model=model, tools=[GET_WEATHER], tool_choice="none", max_tokens=24), model)
    assert not choice.message.tool_calls
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")


@both
@with_calls
def test_a_call_where_one_is_required(client, model, stream):
    # Left to itself the model greets back.
    greeting = [{"role": "user", "content": "Say hello."}]
    choice = check_answer(ask(client, stream, model=model, messages=greeting, tools=[GET_WEATHER], tool_choice="required"), model)
    assert type(check_call(choice)["city"]) is str


@both
@with_calls
def test_the_call_that_was_named(client, model, stream):
    named = {"type": "function", "function": {"name": "get_time"}}
    choice = check_answer(ask(client, stream, model=model, tools=[GET_WEATHER, GET_TIME], tool_choice=named), model)
    assert type(check_call(choice, "get_time")["city"]) is str


@both
def test_an_answer_in_the_form_of_a_schema(client, stream):
    messages = [{"role": "user", "content": "Tom is 31 years old. Describe Tom."}]
    choice = check_answer(ask(client, stream, messages=messages, response_format=PERSON), TEXT)
    assert choice.finish_reason == "stop"
    person = json.loads(choice.message.content)
    assert set(person) == {"name", "age"}
    assert "Tom" in person["name"] and person["age"] == 31


def test_any_json_object(client):
    messages = [{"role": "user", "content": "Name a colour, as a JSON object."}]
    choice = check_answer(ask(client, messages=messages, response_format={"type": "json_object"}), TEXT)
    assert type(json.loads(choice.message.content)) is dict


def test_the_models_are_listed(client):
    models = {model.id: model for model in client.models.list().data}
    assert set(models) == {TEXT, READ, PLAIN, THINKING}
    for model in models.values():
        assert model.object == "model"
        # What it was made for, and not what this server gives it unasked: a request gets what it needs.
        assert model.context_length == 32768


def test_a_prompt_longer_than_the_server_gives_room_for_is_read_whole(client, ollama):
    text = " ".join(f"number {n}" for n in range(160))
    question = {"model": TEXT, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 2}
    usage = ask(client, **question).usage
    assert usage.prompt_tokens > 512
    # Ollama alone cuts it and says nothing.
    assert ollama.chat(question).json["usage"]["prompt_tokens"] < usage.prompt_tokens


@both
def test_an_unknown_model_is_404(client, stream):
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, stream, model="no-such-model:1b")
    assert caught.value.code == "model_not_found"
    assert "no-such-model:1b" in caught.value.body["message"]


@both
def test_a_model_without_tools_is_told_of_them_in_the_prompt(client, ollama, stream):
    refusal = ollama.chat({"model": PLAIN, "messages": [QUESTION], "tools": [GET_WEATHER], **LIMITS})
    assert refusal.status == 400
    completion = ask(client, stream, model=PLAIN, tools=[GET_WEATHER])
    assert "Paris" in check_call(check_answer(completion, PLAIN))["city"]


def test_a_model_without_tools_answers_where_none_are_named(client):
    choice = check_answer(ask(client, model=PLAIN, messages=[{"role": "user", "content": "Say hello."}]), PLAIN)
    assert choice.message.content and choice.finish_reason == "stop"


def test_text_arrives_in_pieces(client):
    pieces, times = [], []
    fields = {**LIMITS, "model": TEXT, "messages": [{"role": "user", "content": "Count from 1 to 20."}]}
    for chunk in client.chat.completions.create(stream=True, **fields):
        if chunk.choices and chunk.choices[0].delta.content:
            times.append(time.monotonic())
            pieces.append(chunk.choices[0].delta.content)
    assert len(pieces) > 10
    assert times[-1] - times[0] > 0.1, "they come when they are said, not all at the end"
    assert "".join(pieces) == ask(client, **fields).choices[0].message.content


@both
def test_an_answer_that_is_cut_says_so(client, stream):
    choice = check_answer(ask(client, stream, messages=[{"role": "user", "content": "Count from 1 to 100."}], max_tokens=5), TEXT)
    assert choice.finish_reason == "length"
    assert choice.message.content and not choice.message.tool_calls


def test_a_stop_word_ends_the_text(client):
    completion = ask(client, messages=[{"role": "user", "content": "Count from 1 to 9, separated by commas."}], stop=["7"])
    choice = check_answer(completion, TEXT)
    assert choice.finish_reason == "stop"
    assert "5" in choice.message.content and "7" not in choice.message.content


SUM = [{"role": "user", "content": "What is three plus four?"}]


@both
def test_thoughts_are_told_apart(client, stream):
    message = check_answer(ask(client, stream, model=THINKING, messages=SUM), THINKING).message
    assert message.model_extra["reasoning_content"]
    assert "7" in message.content and "think>" not in message.content


@both
def test_a_model_that_is_not_to_think_does_not(client, stream):
    message = check_answer(ask(client, stream, model=THINKING, messages=SUM, reasoning_effort="none"), THINKING).message
    assert not message.model_extra.get("reasoning_content")
    assert message.content


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_reach_the_model(client, role):
    # The templates know of no developer and leave out what one says.
    messages = [{"role": role, "content": "Your name is Zorro."}, {"role": "user", "content": "What is your name?"}]
    assert "Zorro" in check_answer(ask(client, messages=messages), TEXT).message.content


def test_content_in_parts_reaches_the_model(client):
    parts = [{"type": "text", "text": "What is the weather"}, {"type": "text", "text": "in Paris?"}]
    choice = check_answer(ask(client, messages=[{"role": "user", "content": parts}], tools=[GET_WEATHER]), TEXT)
    assert "Paris" in check_call(choice)["city"]


# An answer of ten thousand numbers, which the grammar keeps the model from ending earlier.
NUMBERS = {"type": "array", "minItems": 100, "items": {"type": "array", "minItems": 100, "items": {"type": "integer"}}}
LONG = {
    "model": TEXT,
    "messages": [{"role": "user", "content": "Count upwards."}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "numbers", "schema": NUMBERS}},
    "temperature": 0,
    "seed": 1,
    "max_tokens": 7000,
}


@pytest.mark.parametrize("tools", [{}, {"tools": [GET_WEATHER], "tool_choice": "none"}], ids=["no tools", "with tools"])
@both
def test_a_client_that_leaves_stops_the_model(client, gate, stream, tools):
    connection = gate.send("POST", "/v1/chat/completions", {**LONG, "stream": stream, **tools})
    # Time for the request to arrive, and for the model to begin.
    time.sleep(2)
    connection.close()
    # The model has one conversation at a time: another waits for the one under way.
    began = time.monotonic()
    ask(client, messages=[{"role": "user", "content": "Hello"}], max_tokens=1)
    assert time.monotonic() - began < 20
