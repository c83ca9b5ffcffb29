"""An MCP server over stdio that does what a JSON script says.

The script is the first argument, an object. What it is, all optional:
  tools         the list of tools, as tools/list has it; the keys below are not shown
  log           a file to which it appends one line for each start ("start PID"), message ("METHOD"), cancellation ("cancelled ID"), end
                of its input ("end") and call under way ("calls N", the number of them at that moment)
What it does wrong:
  crash_starts  it ends with status 3 up to this start, after "no luck today" on its standard error; needs "log"
  crash_after   but not on so many of the first starts
  count         so many tools more, tool_0, tool_1 and so on
  quiet         it does not announce changes
  silent        it answers nothing
  banner        lines written before anything else
  garbage       so many lines that are no JSON before each answer
  page_size     so many tools a page
  page_loop     the last page names the first one as the next
  list_error    tools/list fails but on the first so many times
  grandchild    it starts a process that holds its pipes and lives on
  stubborn      it ignores SIGTERM and the end of its input
  deaf          it reads nothing after the greeting
  modern        it does not know "initialize", only "server/discover"
  ping          it asks for a ping before it answers a call
  elicit        it asks for an elicitation before it answers a call, and answers with what it got
What a tool may say of its calls:
  answer        their result; without it the text "NAME ARGUMENTS"
  text          their result as text; "ENV NAME" is the variable NAME
  delay         seconds before it
  crash         it ends with that status instead
  once          it ends after the answer
  hang          there is no answer
  raw           a line to write instead, where ID stands for the id
  bytes         a result of so many bytes
  progress      messages about its progress, before the answer
  burst         so many notifications that the list of tools changed, before the answer
  adds          a tool that there is afterwards; it is announced
  says          something for its standard error
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

script = json.loads(sys.argv[1])
tools = script.get("tools", [])
tools += [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(script.get("count", 0))]
OWN = {"answer", "text", "delay", "crash", "once", "hang", "raw", "bytes", "progress", "burst", "adds", "says"}
output = threading.Lock()
waiting = {}
under_way = set()
lists = 0
subscriptions = []


def log(line):
    if "log" in script:
        with open(script["log"], "a") as file:
            file.write(line + "\n")


def write(line):
    with output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def announce():
    """Says that the list of tools changed, to those who want to know."""
    if "modern" not in script:
        send(method="notifications/tools/list_changed")
    for id in subscriptions:
        send(method="notifications/tools/list_changed", params={"_meta": {"io.modelcontextprotocol/subscriptionId": id}})


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def ask(method, params):
    """Asks the client, and waits for its answer."""
    answered = threading.Event()
    waiting[method] = [answered, None]
    send(id=method, method=method, params=params)
    answered.wait(5)
    return waiting[method][1]


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def listed(params):
    global lists
    lists += 1
    if "list_error" in script and lists > script["list_error"]:
        raise ValueError("no list today")
    size = script.get("page_size", len(tools) or 1)
    begin = int(params.get("cursor", 0))
    page = {"tools": [{k: v for k, v in tool.items() if k not in OWN} for tool in tools[begin : begin + size]]}
    if begin + size < len(tools):
        page["nextCursor"] = str(begin + size)
    elif "page_loop" in script:
        page["nextCursor"] = "0"
    return page


def capabilities():
    return {"tools": {} if "quiet" in script else {"listChanged": True}}


def answer(method, params, id):
    if method == "initialize" and "modern" not in script:
        version = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "scripted", "version": "1"}}
        return {**version, "capabilities": capabilities()}
    if method == "server/discover" and "modern" in script:
        # What may be kept for how long, and by whom, is part of each answer.
        kept = {"resultType": "complete", "ttlMs": 60000, "cacheScope": "private"}
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities(), **kept}
    if method == "subscriptions/listen" and "modern" in script:
        subscriptions.append(id)
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        send(method="notifications/subscriptions/acknowledged", params={"_meta": meta, "notifications": params["notifications"]})
        return None
    if method == "tools/list":
        return listed(params)
    if method == "ping":
        return {}
    raise ValueError(f"no method {method}")


def call(params, id):
    tool = next(tool for tool in tools if tool["name"] == params["name"])
    if "says" in tool:
        print(tool["says"], file=sys.stderr, flush=True)
    for number, message in enumerate(tool.get("progress", []), 1):
        time.sleep(0.05)
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": number, "total": 9, "message": message}
        send(method="notifications/progress", params=progress)
    time.sleep(tool.get("delay", 0))
    if "crash" in tool:
        os._exit(tool["crash"])
    if "hang" in tool:
        return None
    if "raw" in tool:
        write(tool["raw"].replace("ID", json.dumps(id)))
        return None
    if "bytes" in tool:
        return text("x" * tool["bytes"])
    for _ in range(tool.get("burst", 0)):
        announce()
    if "adds" in tool:
        tools.append(tool["adds"])
        announce()
    if "ping" in script:
        return text(json.dumps(ask("ping", {})))
    if "elicit" in script:
        schema = {"type": "object", "properties": {}}
        return text(json.dumps(ask("elicitation/create", {"message": "Who?", "requestedSchema": schema})))
    said = tool.get("text", params["name"] + " " + json.dumps(params.get("arguments"), sort_keys=True))
    if said.startswith("ENV "):
        said = str(os.environ.get(said[4:]))
    return tool.get("answer", text(said))


def serve(message):
    method, params, id = message["method"], message.get("params", {}), message["id"]
    is_call = method == "tools/call"
    try:
        if is_call:
            under_way.add(id)
            log(f"calls {len(under_way)}")
        result = call(params, id) if is_call else answer(method, params, id)
        under_way.discard(id)
    except ValueError as error:
        send(id=id, error={"code": -32601, "message": str(error)})
        return
    for number in range(script.get("garbage", 0)):
        write(f"garbage {number}")
    if result is not None:
        send(id=id, result=result)
    if is_call and any("once" in tool for tool in tools):
        os._exit(0)


def main():
    log(f"start {os.getpid()}")
    if "stubborn" in script:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in script.get("banner", []):
        write(line)
    if "crash_starts" in script:
        with open(script["log"]) as file:
            starts = sum(line.startswith("start ") for line in file)
        if script.get("crash_after", 0) < starts <= script["crash_starts"]:
            print("no luck today", file=sys.stderr, flush=True)
            sys.exit(3)
    if "grandchild" in script:
        child = subprocess.Popen(["sleep", "300"])
        log(f"grandchild {child.pid}")
    for line in sys.stdin:
        message = json.loads(line)
        log(message.get("method", "answer"))
        if message.get("method") == "notifications/cancelled":
            log(f"cancelled {message['params']['requestId']}")
        if "method" not in message:
            waiting[message["id"]][1] = {k: v for k, v in message.items() if k in ("result", "error")}
            waiting[message["id"]][0].set()
        elif "id" in message and "silent" not in script:
            if message["method"] == "tools/call":
                threading.Thread(target=serve, args=[message], daemon=True).start()
            else:
                serve(message)
        if "deaf" in script and message.get("method") == "tools/list":
            time.sleep(300)
    log("end")
    if "stubborn" in script:
        time.sleep(300)


main()
