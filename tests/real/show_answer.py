"""Prints a streamed chat completion from stdin as it comes; exits 1 unless it calls get_weather for Paris."""

import json
import sys

calls = {}
raw = []
for line in sys.stdin:
    raw.append(line)
    if not line.startswith("data:") or line[5:].strip() == "[DONE]":
        continue
    chunk = json.loads(line[5:])
    for choice in chunk.get("choices", []):
        delta = choice["delta"]
        print(delta.get("content") or "", end="", flush=True)
        for part in delta.get("tool_calls") or []:
            call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
            function = part.get("function", {})
            if function.get("name"):
                call["name"] = function["name"]
                print(f"\n  call      {call['name']} ", end="")
            call["arguments"] += function.get("arguments") or ""
            print(function.get("arguments") or "", end="", flush=True)
        if choice.get("finish_reason"):
            print(f"\n  finished  {choice['finish_reason']}", flush=True)
    if "toolgate" in chunk:
        report = chunk["toolgate"]
        print(f"  guardrail {report['guardrail']}, attempts {len(report['attempts'])}", flush=True)

if not calls:
    # An error comes as a plain JSON body, and it is the explanation.
    print("".join(raw[-20:]), file=sys.stderr)


def is_paris(call):
    try:
        return call["name"] == "get_weather" and "Paris" in json.loads(call["arguments"])["city"]
    except (ValueError, KeyError, TypeError):
        return False


sys.exit(0 if any(map(is_paris, calls.values())) else 1)
