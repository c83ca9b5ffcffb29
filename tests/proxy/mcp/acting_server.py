"""An MCP server over stdio whose tools act as a JSON script says, call after call, also across its own deaths.

The script is the first argument, an object:
  dir      a directory of its own; calls.log there has a line for every call and what became of it
  tools    the list of tools, as tools/list has it; each may have "acts", one a call and the last for ever:
             "answer"       the text "NAME ARGUMENTS"
             "die"          it ends before it answers; the next process of it goes on
             "die for good" the same, and no other process of it lives
             "hang"         it never answers
             "error"        a result that says that the tool failed
             "garble"       something that is no result
             "refuse"       an error instead of a result
             a number       it answers after so many seconds
             an object      this result
"""

import json
import os
import sys
import threading
import time

script = json.loads(sys.argv[1])
log = os.path.join(script["dir"], "calls.log")
grave = os.path.join(script["dir"], "dead")
lock = threading.Lock()


def note(line):
    with lock, open(log, "a") as file:
        file.write(line + "\n")


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def act_of(tool):
    with lock, open(log) as file:
        calls = sum(line.startswith("call " + tool["name"] + " ") for line in file)
    acts = tool.get("acts", ["answer"])
    return acts[min(calls, len(acts)) - 1]


def call(id, name, arguments):
    tool = next(tool for tool in script["tools"] if tool["name"] == name)
    note("call " + name + " " + json.dumps(arguments, sort_keys=True))
    act = act_of(tool)
    if act == "die for good":
        open(grave, "w").close()
    if act in ("die", "die for good"):
        os._exit(1)
    if act == "hang":
        return
    if act == "garble":
        send({"id": id, "result": {"content": 5}})
        return
    if act == "refuse":
        send({"id": id, "error": {"code": -32602, "message": "refused by the script"}})
        return
    if isinstance(act, (int, float)):
        time.sleep(act)
    text = "failed by the script" if act == "error" else name + " " + json.dumps(arguments, sort_keys=True)
    result = act if isinstance(act, dict) else {"content": [{"type": "text", "text": text}], "isError": act == "error"}
    note("done " + name)
    send({"id": id, "result": result})


def answer(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "acting", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{k: v for k, v in tool.items() if k != "acts"} for tool in script["tools"]]}
    return {}


if os.path.exists(grave):
    sys.exit(1)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if method == "tools/call":
        threading.Thread(target=call, args=(message["id"], params["name"], params.get("arguments")), daemon=True).start()
    elif method == "notifications/cancelled":
        note("cancelled")
    elif "id" in message:
        send({"id": message["id"], "result": answer(method, params)})
