"""Claude Code, over Anthropic's Messages."""

import json

from scripted_model import REASONING


def test_a_shell_command(bench):
    outcome = bench.run(
        "claude",
        "--print",
        bench.prompt,
        "--output-format=stream-json",
        "--verbose",
        "--dangerously-skip-permissions",
        ANTHROPIC_BASE_URL=bench.url,
        ANTHROPIC_AUTH_TOKEN="none",
        ANTHROPIC_MODEL="scripted",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        # As root it skips its questions in a sandbox only.
        IS_SANDBOX="1",
    )
    bench.check(outcome)
    [end] = [event for event in map(json.loads, outcome.stdout.splitlines()) if event["type"] == "result"]
    assert (end["subtype"], end["is_error"], end["result"], end["num_turns"]) == ("success", False, bench.model.final_text, 2)
    check_exchanges(bench)


def check_exchanges(bench):
    exchanges = [(request.json(), fold(answer)) for request, answer in bench.tap.exchanges() if request.path == "/v1/messages"]
    (asked, call), (asked_again, said) = [exchange for exchange in exchanges if exchange[0].get("tools")]
    assert [block["type"] for block in call["content"]] == ["thinking", "tool_use"] and call["stop_reason"] == "tool_use"
    assert call["content"][0]["thinking"] == REASONING * bench.model.script.replies
    assert call["content"][1]["input"]["command"] == bench.model.command
    assert [block.get("text") for block in said["content"]] == [None, bench.model.final_text] and said["stop_reason"] == "end_turn"
    assert said["id"] != call["id"] and said["usage"]["input_tokens"] > 0
    for sent, received in ((asked, bench.model.main_requests[0]), (asked_again, bench.model.main_requests[-1])):
        check_request(sent, received)


def check_request(sent, received):
    """What the model is asked is what Claude Code says, without what only Anthropic's servers read."""
    system, *messages = received["messages"]
    blocks = [block["text"] for block in sent["system"]]
    accounts = [text for text in blocks if text.startswith("x-anthropic-billing-header:")]
    assert system == {"role": "system", "content": "\n\n".join(text for text in blocks if text not in accounts)}
    assert {message["role"] for message in messages} <= {"user", "assistant", "tool"}
    assert received["max_tokens"] == sent["max_tokens"]
    offered = {tool["function"]["name"]: tool["function"]["parameters"] for tool in received["tools"]}
    assert offered.pop("respond")
    assert offered == {tool["name"]: tool["input_schema"] for tool in sent["tools"] if not tool.get("defer_loading")}
    assert not {"system", "thinking", "context_management", "metadata", "output_config", "betas"} & received.keys()


def fold(answer):
    """The message that a stream makes."""
    assert answer is not None and answer.first_line.split()[1] == "200", answer
    message, parts = None, []
    for event in answer.events():
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                parts = []
            case "content_block_delta":
                delta, block = event["delta"], message["content"][event["index"]]
                match delta["type"]:
                    case "input_json_delta":
                        parts.append(delta["partial_json"])
                        block["input"] = None
                    case "text_delta" | "thinking_delta" as kind:
                        block[kind.removesuffix("_delta")] += delta[kind.removesuffix("_delta")]
            case "content_block_stop":
                if parts:
                    message["content"][event["index"]]["input"] = json.loads("".join(parts))
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case "message_stop":
                return message
    raise AssertionError(f"a message without an end: {answer}")
