"""Streamed answers as clients for Python fold them that others wrote, through toolgate, in front of a scripted backend.

Every client is told the same answers (scripted_backend.py) and must come to the same result.
"""

import os
from dataclasses import dataclass

import langchain_openai
import openai
import pytest
from pydantic_ai import direct
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelRequest, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

# As scripted_backend.py says them.
TEXT = 'She said "hello"\\ in Zürich 😀\nand left.'
REASONING = "They only want to chat 🤔."
USAGE = (7, 5)

QUESTION = "What is the weather in Paris?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
GET_WEATHER = {
    "type": "function",
    # The .stream() helper of openai parses the arguments of strict tools only.
    "function": {"name": "get_weather", "description": "Get the current weather of a city.", "strict": True, "parameters": CITY},
}
# Retries would hide a fault.
CONNECTION = {"base_url": os.environ["SCRIPTED_TOOLGATE_URL"] + "/v1", "api_key": "none", "max_retries": 0, "timeout": 30}


@dataclass
class Answer:
    """What a client made of a stream."""

    text: str
    calls: list
    finish_reason: str
    usage: tuple
    reasoning: str = ""


class OpenAI:
    """The helper of the official package, which keeps fields that it does not know and joins them as it joins text."""

    shows_reasoning = True
    tool_calls_reason = "tool_calls"
    stream_error = openai.APIError
    status_error = openai.InternalServerError

    def fold(self, script, shown):
        with openai.OpenAI(**CONNECTION) as client:
            with client.chat.completions.stream(
                model=script,
                messages=[{"role": "user", "content": QUESTION}],
                tools=[GET_WEATHER],
                stream_options={"include_usage": True},
            ) as stream:
                for event in stream:
                    if event.type == "content.delta":
                        shown.append(event.delta)
                completion = stream.get_final_completion()
        [choice] = completion.choices
        return Answer(
            text=choice.message.content or "",
            calls=[(call.function.name, call.function.parsed_arguments) for call in choice.message.tool_calls or []],
            finish_reason=choice.finish_reason,
            usage=(completion.usage.prompt_tokens, completion.usage.completion_tokens),
            reasoning=getattr(choice.message, "reasoning_content", ""),
        )


class LangChain:
    """langchain-openai, which drops `reasoning_content`: it says that it speaks OpenAI's own dialect and no other."""

    shows_reasoning = False
    tool_calls_reason = "tool_calls"
    stream_error = openai.APIError
    status_error = openai.InternalServerError

    def fold(self, script, shown):
        model = langchain_openai.ChatOpenAI(model=script, stream_usage=True, **CONNECTION).bind_tools([GET_WEATHER])
        answer = None
        for chunk in model.stream(QUESTION):
            shown.append(chunk.text)
            answer = chunk if answer is None else answer + chunk
        assert answer.invalid_tool_calls == []
        return Answer(
            text=answer.text,
            calls=[(call["name"], call["args"]) for call in answer.tool_calls],
            finish_reason=answer.response_metadata["finish_reason"],
            usage=(answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]),
            reasoning=answer.additional_kwargs.get("reasoning_content", ""),
        )


class PydanticAI:
    """pydantic-ai, below its agents: they would run the tool and ask again."""

    shows_reasoning = True
    tool_calls_reason = "tool_call"  # Its own word.
    stream_error = ModelAPIError
    status_error = ModelHTTPError

    def fold(self, script, shown):
        provider = OpenAIProvider(openai_client=openai.AsyncOpenAI(**CONNECTION))
        tool = ToolDefinition(name="get_weather", parameters_json_schema=CITY)
        with direct.model_request_stream_sync(
            OpenAIChatModel(script, provider=provider),
            [ModelRequest.user_text_prompt(QUESTION)],
            model_request_parameters=ModelRequestParameters(function_tools=[tool]),
        ) as stream:
            for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        shown.append(text)
            response = stream.response
        return Answer(
            text=response.text or "",
            calls=[(call.tool_name, call.args_as_dict()) for call in response.tool_calls],
            finish_reason=response.finish_reason,
            usage=(response.usage.input_tokens, response.usage.output_tokens),
            reasoning=response.thinking or "",
        )


@pytest.fixture(params=[OpenAI, LangChain, PydanticAI], ids=lambda client: client.__name__)
def client(request):
    return request.param()


def test_what_the_model_says_through_respond_is_text(client):
    shown = []
    answer = client.fold("respond", shown)
    assert answer == Answer(text=TEXT, calls=[], finish_reason="stop", usage=USAGE)
    assert "".join(shown) == TEXT


def test_a_tool_call(client):
    shown = []
    answer = client.fold("weather", shown)
    assert answer == Answer(
        text="", calls=[("get_weather", {"city": "Paris"})], finish_reason=client.tool_calls_reason, usage=USAGE
    )
    assert "".join(shown) == ""


def test_reasoning_stands_apart_from_the_text(client):
    answer = client.fold("reasoning", [])
    assert (answer.text, answer.calls, answer.finish_reason) == (TEXT, [], "stop")
    assert answer.reasoning == (REASONING if client.shows_reasoning else "")


def test_a_corrected_attempt_is_not_seen(client):
    shown = []
    answer = client.fold("unknown-tool-first", shown)
    assert answer.calls == [("get_weather", {"city": "Paris"})]
    assert (answer.text, "".join(shown), answer.finish_reason) == ("", "", client.tool_calls_reason)


def test_a_backend_that_dies_in_the_middle_is_an_error(client):
    shown = []
    with pytest.raises(client.stream_error, match="connection broke"):
        client.fold("cut", shown)
    text = "".join(shown)
    assert text and text != TEXT and TEXT.startswith(text)


def test_a_late_refusal_is_an_error(client):
    """The head with its status 200 has left, and nothing else."""
    shown = []
    with pytest.raises(client.stream_error, match="the model fell over"):
        client.fold("refuse-late", shown)
    assert "".join(shown) == ""


@pytest.mark.parametrize(("script", "status", "message"), [("refuse", 500, "fell over"), ("hang-up", 502, "connection broke")])
def test_an_error_before_anything_was_shown_has_its_status(client, script, status, message):
    with pytest.raises(client.status_error, match=message) as caught:
        client.fold(script, [])
    assert caught.value.status_code == status
