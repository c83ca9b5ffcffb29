"""An MCP server over stdio that does what a JSON script says.

The script is the first argument, an object:
  tools    the list of tools, as tools/list has it; each may have "answer", a result for its calls
  Calls of a tool without "answer" are answered with the text "NAME ARGUMENTS".
"""

import json
import sys

script = json.loads(sys.argv[1])
tools = script.get("tools", [])


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{k: v for k, v in tool.items() if k != "answer"} for tool in tools]}
    if method == "tools/call":
        tool = next(tool for tool in tools if tool["name"] == params["name"])
        text = params["name"] + " " + json.dumps(params.get("arguments"), sort_keys=True)
        return tool.get("answer", {"content": [{"type": "text", "text": text}]})
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        send({"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], message.get("params", {}))})
