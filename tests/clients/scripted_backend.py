"""A model server whose answers are scripted: it streams them the way llama-server does, and breaks off where a test wants that.

    scripted_backend.py PORT

The `model` of a request names the script. What the scripts say is fixed, so that the tests of every client can expect the same:
the names and the texts below are repeated there.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Escapes, a character beyond ASCII and, in JSON, a surrogate pair.
TEXT = 'She said "hello"\\ in Zürich 😀\nand left.'
PATCH = '*** Begin Patch\n+She said "hello"\\ in Zürich 😀\n*** End Patch'
REASONING = ["They only ", "want to ", "chat 🤔."]
WEATHER = ("get_weather", {"city": "Paris"})
# Long enough for the head of toolgate's answer to have left before the backend's comes: `server.head_grace` is 250 ms.
LATE_SECONDS = 0.6


def respond(exchange):
    exchange.stream(call("respond", {"message": TEXT}), "tool_calls")


def weather(exchange):
    exchange.stream(call(*WEATHER), "tool_calls")


def patch(exchange):
    exchange.stream(call("apply_patch", {"input": PATCH}), "tool_calls")


def reasoning(exchange):
    exchange.stream([*({"reasoning_content": part} for part in REASONING), *call("respond", {"message": TEXT})], "tool_calls")


def unknown_tool_first(exchange):
    """Calls a tool that nobody offered until the transcript says what was wrong with that."""
    was_corrected = len(exchange.body["messages"]) > 1
    name, arguments = WEATHER if was_corrected else ("fly_to_the_moon", {"crew": 3})
    exchange.stream(call(name, arguments), "tool_calls")


def result_told(exchange):
    """Calls until there is a result, which it then tells."""
    last = exchange.body["messages"][-1]
    told = call("respond", {"message": last["content"]}) if last["role"] == "tool" else call(*WEATHER)
    exchange.stream(told, "tool_calls")


def read_me(exchange):
    """Reads README.md with the tool that is there for it, and tells what it says."""
    last = exchange.body["messages"][-1]
    told = call("respond", {"message": last["content"]}) if last["role"] == "tool" else call("read_text_file", {"path": "README.md"})
    exchange.stream(told, "tool_calls")


def cut(exchange):
    """Dies while it says something."""
    deltas = [*call("respond", {"message": TEXT})]
    exchange.stream(deltas[: len(deltas) // 2])


def refuse(exchange):
    exchange.send_json(500, {"error": {"message": "the model fell over", "type": "server_error", "param": None, "code": 500}})


def refuse_late(exchange):
    time.sleep(LATE_SECONDS)
    refuse(exchange)


def hang_up(exchange):
    """Closes the connection without a word."""
    exchange.close_connection = True


SCRIPTS = {
    script.__name__.replace("_", "-"): script
    for script in (respond, weather, patch, reasoning, unknown_tool_first, result_told, read_me, cut, refuse, refuse_late, hang_up)
}


def call(name, arguments):
    """The deltas of a call. Its arguments come one character at a time, which splits each escape wherever it can be split."""
    function = {"name": name, "arguments": ""}
    yield {"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": function}]}
    for character in json.dumps(arguments):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": character}}]}


class Exchange(BaseHTTPRequestHandler):
    """One request. An answer ends where its connection does."""

    def do_GET(self):
        if self.path == "/health":
            self.send_json(200, {"status": "ok"})
        else:
            self.send_not_found()

    def do_POST(self):
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/chat/completions":
            SCRIPTS[self.body["model"]](self)
        else:
            self.send_not_found()

    def send_not_found(self):
        self.send_json(404, {"error": {"message": "not scripted", "type": "not_found_error", "param": None, "code": 404}})

    def send_json(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def stream(self, deltas, finish_reason=None):
        """Streams an answer; without a finish reason the connection breaks after its deltas."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for delta in ({"role": "assistant", "content": None}, *deltas):
            self.send_choice(delta, None)
        if finish_reason is None:
            return
        self.send_choice({}, finish_reason)
        if (self.body.get("stream_options") or {}).get("include_usage"):
            self.send_chunk(choices=[], usage=self.usage)
        self.send_piece("data: [DONE]\n\n")
        self.send_piece("")

    def send_choice(self, delta, finish_reason):
        self.send_chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def send_chunk(self, **fields):
        head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": self.body["model"]}
        self.send_piece(f"data: {json.dumps({**head, **fields}, ensure_ascii=False)}\n\n")

    def send_piece(self, text):
        """Sends a piece of a chunked body; the empty one ends it."""
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())

    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}

    # The base class names the protocol version here. 1.1 allows chunks, without which a broken connection would look like an end.
    protocol_version = "HTTP/1.1"

    def end_headers(self):
        self.send_header("connection", "close")
        super().end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Exchange).serve_forever()
