"""OpenAI's Responses as clients for Python read them that others wrote, through toolgate, in front of a scripted backend."""

import json
import os

import langchain_openai
import openai
import pytest
from openai.types.responses import Response
from pydantic_ai import direct
from pydantic_ai.messages import ModelRequest, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

# As scripted_backend.py says them.
TEXT = 'She said "hello"\\ in Zürich 😀\nand left.'
PATCH = '*** Begin Patch\n+She said "hello"\\ in Zürich 😀\n*** End Patch'
REASONING = "They only want to chat 🤔."
USAGE = (7, 5, 12)

QUESTION = "What is the weather in Paris?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
GET_WEATHER = {"type": "function", "name": "get_weather", "description": "Get the weather of a city.", "strict": True, "parameters": CITY}
APPLY_PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
# Retries would hide a fault.
CONNECTION = {"base_url": os.environ["SCRIPTED_TOOLGATE_URL"] + "/v1", "api_key": "none", "max_retries": 0, "timeout": 30}


@pytest.fixture(scope="module")
def client():
    with openai.OpenAI(**CONNECTION) as client:
        yield client


def create(client, script, **more):
    return client.responses.create(model=script, **{"input": QUESTION, "tools": [GET_WEATHER], **more})


def ask(client, script, how, **more):
    """The response, in one of the ways to get it."""
    if how == "whole":
        response = create(client, script, **more)
    elif how == "streamed":
        events = list(create(client, script, stream=True, **more))
        for event in events:
            # The package itself reads whatever comes.
            type(event).model_validate(event.to_dict())
        response = events[-1].response
    else:
        with client.responses.stream(model=script, **{"input": QUESTION, "tools": [GET_WEATHER], **more}) as stream:
            stream.until_done()
            response = stream.get_final_response()
    if how != "helper":
        Response.model_validate(response.to_dict())
    assert response.object == "response" and response.status == "completed" and response.error is None
    # All attempts are counted.
    attempts = 2 if script == "unknown-tool-first" else 1
    usage = (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens)
    assert usage == tuple(attempts * count for count in USAGE)
    return response


in_each_way = pytest.mark.parametrize("how", ["whole", "streamed", "helper"])


@in_each_way
def test_what_the_model_says_through_respond_is_output_text(client, how):
    response = ask(client, "respond", how)
    assert response.output_text == TEXT
    assert [item.type for item in response.output] == ["message"]


@in_each_way
@pytest.mark.parametrize("script", ["weather", "unknown-tool-first"])
def test_a_tool_call(client, how, script):
    [call] = ask(client, script, how).output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Paris"})
    assert call.id != call.call_id
    if how == "helper":
        assert call.parsed_arguments == {"city": "Paris"}


@in_each_way
def test_a_custom_tool_call(client, how):
    [call] = ask(client, "patch", how, tools=[APPLY_PATCH]).output
    assert (call.type, call.name, call.input) == ("custom_tool_call", "apply_patch", PATCH)


@in_each_way
@pytest.mark.parametrize("summary", [None, "auto"])
def test_reasoning_stands_apart_from_the_text(client, how, summary):
    response = ask(client, "reasoning", how, reasoning={"summary": summary})
    [reasoning, message] = response.output
    parts = reasoning.summary if summary else reasoning.content
    assert "".join(part.text for part in parts) == REASONING
    assert message.content[0].text == response.output_text == TEXT


@in_each_way
def test_a_result_is_told(client, how):
    asked = [{"role": "user", "content": QUESTION}]
    response = ask(client, "result-told", how, input=asked)
    [call] = response.output
    # The items go back as they came.
    result = {"type": "function_call_output", "call_id": call.call_id, "output": TEXT}
    assert ask(client, "result-told", how, input=[*asked, *response.output, result]).output_text == TEXT


def test_text_is_shown_in_pieces(client):
    with client.responses.stream(model="respond", input=QUESTION, tools=[GET_WEATHER]) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert len(pieces) > 5 and "".join(pieces) == TEXT


def test_a_backend_that_dies_in_the_middle_is_an_error(client):
    shown = []
    with pytest.raises(openai.APIError) as caught:
        for event in create(client, "cut", stream=True):
            shown += [event.delta] if event.type == "response.output_text.delta" else []
    assert not isinstance(caught.value, openai.APIStatusError)
    assert shown and TEXT.startswith("".join(shown))


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_keeps_its_status(client, stream):
    with pytest.raises(openai.InternalServerError, match="fell over"):
        create(client, "refuse", stream=stream)


def test_a_refusal_after_the_head_is_an_error(client):
    with pytest.raises(openai.APIError, match="fell over"):
        list(create(client, "refuse-late", stream=True))


def test_nothing_is_stored(client):
    response = create(client, "respond")
    with pytest.raises(openai.NotFoundError, match="not stored"):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, "respond", previous_response_id=response.id)
    assert caught.value.param == "previous_response_id"


def test_langchain():
    model = lambda script: langchain_openai.ChatOpenAI(model=script, use_responses_api=True, stream_usage=True, **CONNECTION)
    tool = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": CITY}}
    for script, text, calls in (("respond", TEXT, []), ("weather", "", [("get_weather", {"city": "Paris"})])):
        bound = model(script).bind_tools([tool])
        answer = None
        for chunk in bound.stream(QUESTION):
            answer = chunk if answer is None else answer + chunk
        for message in (answer, bound.invoke(QUESTION)):
            assert message.text == text
            assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
            assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == USAGE[:2]


@pytest.mark.parametrize("script", ["respond", "weather", "reasoning"])
def test_pydantic_ai(script):
    provider = OpenAIProvider(openai_client=openai.AsyncOpenAI(**CONNECTION))
    tool = ToolDefinition(name="get_weather", parameters_json_schema=CITY)
    with direct.model_request_stream_sync(
        OpenAIResponsesModel(script, provider=provider),
        [ModelRequest.user_text_prompt(QUESTION)],
        model_request_parameters=ModelRequestParameters(function_tools=[tool]),
    ) as stream:
        for _ in stream:
            pass
        answer = stream.response
    said = {type(part): part for part in answer.parts}
    if script == "weather":
        assert said[ToolCallPart].args_as_dict() == {"city": "Paris"}
    else:
        assert said[TextPart].content == TEXT
        assert (ThinkingPart in said) == (script == "reasoning")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == USAGE[:2]
