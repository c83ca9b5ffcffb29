"""What went between an agent that speaks chat completions and toolgate, and what reached the model."""

import json

from scripted_model import REASONING

# What toolgate writes itself.
OWN = {"messages", "tools", "stream", "stream_options"}


def check_exchanges(bench):
    exchanges = [(request.json(), answer) for request, answer in bench.tap.exchanges() if request.path.endswith("/chat/completions")]
    call, said = [exchange for exchange in exchanges if exchange[0].get("tools")]
    check_call(bench, fold(call[1]))
    check_text(bench, fold(said[1]))
    asked = [bench.model.main_requests[0], bench.model.main_requests[-1]]
    for (sent, _), received in zip((call, said), asked, strict=True):
        check_request(sent, received)


def check_call(bench, answer):
    assert (answer["content"], answer["finish_reasons"]) == ("", ["tool_calls"])
    [call] = answer["calls"]
    assert call["index"] == 0 and call["id"] and call["type"] == "function"
    assert bench.model.command in json.dumps(json.loads(call["function"]["arguments"]))
    assert answer["reasoning_content"] == REASONING * bench.model.script.replies


def check_text(bench, answer):
    assert (answer["content"], answer["calls"], answer["finish_reasons"]) == (bench.model.final_text, [], ["stop"])


def check_request(sent, received):
    """What the agent wrote came as it was written, with one tool more and without the model's past reasoning."""
    assert text({name: sent[name] for name in sent if name not in OWN}) == text({name: received[name] for name in received if name not in OWN})
    *tools, respond = received["tools"]
    assert text(tools) == text(sent["tools"]) and respond["function"]["name"] == "respond"
    for message in sent["messages"]:
        assert message.pop("reasoning_content", REASONING).startswith(REASONING)
    assert text(received["messages"]) == text(sent["messages"])


def text(value):
    return json.dumps(value)


def fold(answer):
    assert answer is not None and answer.first_line.split()[1] == "200", answer
    assert answer.body.rstrip().endswith(b"data: [DONE]")
    folded = {"content": "", "reasoning_content": "", "calls": [], "finish_reasons": []}
    for event in answer.events():
        for choice in event["choices"]:
            delta = choice["delta"]
            for field in ("content", "reasoning_content"):
                folded[field] += delta.get(field) or ""
            for piece in delta.get("tool_calls", []):
                if "id" in piece:
                    folded["calls"].append(piece)
                else:
                    folded["calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
            if choice["finish_reason"]:
                folded["finish_reasons"].append(choice["finish_reason"])
    return folded
