"""A model server for one coding agent and one task. It streams chat completions the way llama-server does, and keeps what it was asked.

It plays a model that is to run one shell command and to tell what came of it. How well it calls the tool is its script:

    structured              a proper call
    as_text                 the call as text, in the form of Hermes and Qwen models
    wrong_arguments_first   a call without what the tool requires; when it is told so, the right one
    announced_first         a sentence about what it is going to do; when it is told so, the call

It tells the result through toolgate's `respond` where that is offered, and answers requests that offer no shell with a few words: agents
ask for titles and summaries in between. A reply whose form is forced has that form.
"""

import json
import re
import threading
from http.server import ThreadingHTTPServer

from scripted_backend import Exchange

# What the tools that run shell commands are called, and their parameter for the command.
SHELLS = {"bash", "exec_command", "execute_command", "run_commands", "run_shell_command", "shell", "shell_command"}
COMMANDS = {"cmd", "command", "commands"}
REASONING = "The shell does that. 🤔"
# An argument of each type, for parameters that are required and no command.
SOME = {"string": "Does what was asked.", "boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
PIECE = 5


def structured(model, shell):
    return [call(shell["name"], arguments(shell, model.command))]


def as_text(model, shell):
    written = json.dumps({"name": shell["name"], "arguments": arguments(shell, model.command)})
    return text(f"<tool_call>\n{written}\n</tool_call>")


def wrong_arguments_first(model, shell):
    return structured(model, shell) if model.attempts > 1 else [call(shell["name"], {})]


def announced_first(model, shell):
    return structured(model, shell) if model.attempts > 1 else text("I am going to run that in the shell.")


SCRIPTS = (structured, as_text, wrong_arguments_first, announced_first)
# How many replies of the model the call takes.
structured.replies = as_text.replies = 1
wrong_arguments_first.replies = announced_first.replies = 2


def arguments(shell, command):
    """Arguments that the tool's schema accepts."""
    schema = shell["parameters"]
    [name] = COMMANDS & schema["properties"].keys()
    required = {other: SOME[schema["properties"][other]["type"]] for other in schema.get("required", []) if other != name}
    if schema["properties"][name]["type"] == "string":
        value = command
    else:
        value = [command] if name == "commands" else ["bash", "-c", command]
    return {name: value, **required}


def call(name, arguments):
    return {"tool_calls": [{"index": 0, "id": "call_7", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}


def text(content):
    return [{"content": content[at : at + PIECE]} for at in range(0, len(content), PIECE)]


class ScriptedModel:
    """Serves from its construction until `close`."""

    def __init__(self, script, number):
        self.script = script
        # The shell reckons what the command prints: nobody can tell it who did not run it. Of a command that ends at once Qwen Code now
        # and then reads nothing.
        self.command = f"echo marker-$((6 * 7))-{number} | tee marker.txt; sleep 0.5"
        self.token = f"marker-42-{number}"
        self.final_text = f"The file says {self.token}."
        # Of the requests that offer a shell, and all.
        self.main_requests = []
        self.requests = []
        self.faults = []
        self.attempts = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), AgentExchange)
        self._server.model = self
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def reply(self, body):
        """The deltas of the answer to a request."""
        self.requests.append(body)
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
        shell = next((tool for name, tool in tools.items() if name.lower() in SHELLS), None)
        if shell is None:
            return text("A short title")
        self.main_requests.append(body)
        if not self.was_run(body["messages"]):
            self.attempts += 1
            deltas = self.script(self, shell)
        elif "respond" in tools:
            deltas = [call("respond", {"message": self.final_text})]
        else:
            deltas = text(self.final_text)
        if "response_format" in body:
            deltas = in_the_forced_form(deltas)
        return [{"reasoning_content": REASONING}, *deltas]

    def was_run(self, messages):
        return any(self.token in json.dumps(message["content"]) for message in messages if message["role"] == "tool")


def in_the_forced_form(deltas):
    [delta] = deltas
    function = delta["tool_calls"][0]["function"]
    return text(json.dumps({"name": function["name"], "arguments": json.loads(function["arguments"])}))


class AgentExchange(Exchange):
    """One request of an agent, whatever `model` it names."""

    # Less would mean to toolgate that the prompt was cut off: see README, `x-toolgate-context`.
    usage = {"prompt_tokens": 60_000, "completion_tokens": 50, "total_tokens": 60_050}

    def do_POST(self):
        model = self.server.model
        try:
            self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            deltas = model.reply(self.body)
        except Exception as fault:  # The agent would hide it behind an error of its own.
            model.faults.append(fault)
            self.send_json(500, {"error": {"message": repr(fault), "type": "server_error", "param": None, "code": 500}})
            return
        self.stream(deltas, "tool_calls" if "tool_calls" in deltas[-1] else "stop")

    def log_message(self, *_):
        pass
