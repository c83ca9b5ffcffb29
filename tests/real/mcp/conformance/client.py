"""The client that the MCP conformance suite tests: toolgate, with a scripted model behind it and the suite's server beside it.

    client.py SERVER-URL

One chat completion is asked for. The model calls every tool that it is offered, once, with arguments that its schema allows, or those that the
scenario wants (MCP_CONFORMANCE_CONTEXT), and answers when it has read the results. TOOLGATE_BIN names the binary.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "All tools were called."
# The tool by which toolgate lets a model answer.
RESPOND = "respond"
SECONDS = 25


def value(schema):
    """Something that `schema` allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: value(properties.get(name, {})) for name in schema.get("required", [])}
    return {"string": "text", "integer": 5, "number": 5, "boolean": True, "array": [], "null": None}.get(kind, "text")


def calls(tools):
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    if wanted:
        return [(call["name"], call["arguments"]) for call in wanted]
    if "json_schema_echo" in tools:
        # The scenario compares what has come of the other tool's schema on its way to the model.
        return [("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]})]
    return [(name, value(schema)) for name, schema in tools.items() if name != RESPOND]


def reply(request):
    """The message that the model answers with."""
    tools = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in request.get("tools", [])}
    has_results = any(message["role"] == "tool" for message in request["messages"])
    made = [] if has_results else calls(tools)
    if not made and RESPOND in tools:
        made = [(RESPOND, {"message": ANSWER})]
    if not made:
        return {"role": "assistant", "content": ANSWER}
    shown = [
        {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for at, (name, arguments) in enumerate(made)
    ]
    return {"role": "assistant", "content": None, "tool_calls": shown}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        known = {"/health": {"status": "ok"}, "/v1/models": {"object": "list", "data": [{"id": "scripted", "object": "model"}]}}
        self.send(200 if self.path in known else 404, "application/json", json.dumps(known.get(self.path, {})))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = reply(request)
        for result in (message for message in request["messages"] if message["role"] == "tool"):
            print("result:", result["content"], file=sys.stderr)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        head = {"id": "c", "created": 1, "model": "scripted"}
        if not request.get("stream"):
            # Passed through: there are no tools.
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.send(200, "application/json", json.dumps({**head, "object": "chat.completion", "choices": [choice]}))
            return
        chunk = {**head, "object": "chat.completion.chunk"}
        deltas = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": reason}]
        frames = [json.dumps({**chunk, "choices": [{"index": 0, **delta}]}) for delta in deltas]
        self.send(200, "text/event-stream", "".join(f"data: {frame}\n\n" for frame in [*frames, "[DONE]"]))

    def send(self, status, kind, body):
        body = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def ask(address):
    body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "Call every tool."}]}).encode()
    request = urllib.request.Request(f"http://{address}/v1/chat/completions", body, {"content-type": "application/json"})
    end = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"toolgate answers {error.code}: {error.read().decode()}") from error
        except urllib.error.URLError:
            # It does not listen yet.
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def main():
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        servers = os.path.join(folder, "mcp_servers.json")
        with open(servers, "w", encoding="utf-8") as file:
            json.dump({"mcpServers": {"suite": {"url": sys.argv[1]}}}, file)
        settings = {
            "TOOLGATE_LISTEN": address,
            "TOOLGATE_BACKEND_URL": f"http://127.0.0.1:{model.server_port}",
            "TOOLGATE_MCP_SERVERS": servers,
        }
        toolgate = subprocess.Popen([os.environ["TOOLGATE_BIN"], "serve"], env={**os.environ, **settings}, cwd=folder)
        # The suite may end us before we are done.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            answer = ask(address)
        finally:
            toolgate.terminate()
            toolgate.wait(10)
    content = answer["choices"][0]["message"]["content"]
    if content != ANSWER:
        raise SystemExit(f"the answer is not the model's: {content}")


main()
