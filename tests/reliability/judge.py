"""Judges one answer, twice: does it keep the contract, and is it right?

The contract is what a client may rely on whatever the model says: an answer is calls of offered tools with arguments that their
schemas accept, or a text, or a typed error. Right is what the case expects. The schemas are read by the Python package `jsonschema`,
which shares nothing with toolgate.
"""

import json
import re
from dataclasses import dataclass, field

import jsonschema
from matchers import matcher

RIGHT = "right"
WRONG_TOOL = "wrong tool"
WRONG_ARGUMENTS = "wrong arguments"
CALL_NOT_DUE = "call where none was due"
TEXT_NOT_DUE = "text where a call was due"
ERROR = "error"
OUTCOMES = (RIGHT, WRONG_TOOL, WRONG_ARGUMENTS, CALL_NOT_DUE, TEXT_NOT_DUE, ERROR)


@dataclass
class Answer:
    """An HTTP answer, or, with status 0, why there was none."""

    status: int
    body: bytes
    headers: dict = field(default_factory=dict)

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def choice(self):
        """The only choice of a chat completion, or None where that is not what this is."""
        match self.json:
            case {"choices": [{"message": {}} as choice]} if self.status == 200:
                return choice
        return None


# === the contract ===


def breach(answer, tools):
    """What breaks the contract, or None."""
    if answer.status == 0:
        return f"no answer: {answer.body.decode()}"
    if answer.status >= 400:
        return None if is_typed_error(answer.json) else "an error without a type and a message"
    if answer.choice is None:
        return "neither a chat completion with one choice nor an error"
    message, finish_reason = answer.choice["message"], answer.choice.get("finish_reason")
    if message.get("tool_calls"):
        if finish_reason != "tool_calls":
            return f"calls with finish_reason {finish_reason}"
        ids = [call.get("id") for call in message["tool_calls"]]
        if not all(isinstance(each, str) and each for each in ids) or len(set(ids)) < len(ids):
            return "calls without ids of their own"
        return next(filter(None, (call_breach(call, tools) for call in message["tool_calls"])), None)
    if finish_reason not in ("stop", "length"):
        return f"a text with finish_reason {finish_reason}"
    # A call that was cut off is withheld: nothing may be left of such an answer, but then it says that it was cut off.
    if finish_reason == "stop" and not is_text(message.get("content")):
        return "neither a call nor a text"
    return None


def call_breach(call, tools):
    """What is wrong with a structured call, measured by what was offered, or None."""
    match call:
        case {"type": "function", "function": {"name": str(name), "arguments": str(arguments)}}:
            pass
        case _:
            return "a call without name or arguments"
    schema = next((tool["function"]["parameters"] for tool in tools if tool["function"]["name"] == name), None)
    if schema is None:
        return f"a call of {name}, which was not offered"
    try:
        jsonschema.validate(json.loads(arguments), schema)
    except ValueError:
        return f"a call of {name} with arguments that are no JSON"
    except jsonschema.ValidationError as error:
        return f"a call of {name} that its schema does not accept: {error.message}"
    return None


def is_typed_error(body):
    match body:
        case {"error": {"message": str(message), "type": str(kind)}}:
            return bool(message and kind)
    return False


def is_text(content):
    return isinstance(content, str) and bool(content.strip())


# === the outcome ===


def outcome(answer, case):
    """How the answer serves the request, one of OUTCOMES."""
    if answer.choice is None:
        return ERROR
    message = answer.choice["message"]
    calls = message.get("tool_calls") or []
    if case.call is None:
        # A call that was merely written down is none for a client, nor is it an answer that a person could read.
        if calls or is_written_call(message.get("content") or ""):
            return CALL_NOT_DUE
        return RIGHT if is_text(message.get("content")) else ERROR
    if not calls:
        return TEXT_NOT_DUE
    name, arguments = case.call
    if any((call.get("function") or {}).get("name") != name for call in calls):
        return WRONG_TOOL
    # The same tool twice would do twice what was asked for once.
    if len(calls) > 1 or call_breach(calls[0], case.tools):
        return WRONG_ARGUMENTS
    return RIGHT if matcher(arguments).accepts(json.loads(calls[0]["function"]["arguments"])) else WRONG_ARGUMENTS


def is_written_call(text):
    """Whether a call stands in the text: a name followed by arguments as JSON, whole or broken, or the tag that models put around it."""
    return "<tool_call>" in text or WRITTEN_CALL.search(text) is not None


WRITTEN_CALL = re.compile(r'"name"\s*:\s*"[^"]*"\s*,\s*"(arguments|parameters)"\s*:')
