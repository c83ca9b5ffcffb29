"""llm-comply, a conformance suite that others wrote, against toolgate over a real llama-server.

Each of its tests is one test here. A failure that toolgate cannot or must not prevent is listed below with its reason; one that
is listed and passes is reported too, so that the list stays true.
"""

import json
import os
import subprocess
import sys

import pytest

NO_TOOLS = (
    "the request offers no tools, so the backend's answer passes byte for byte, "
    "and llama-server leaves out the keys `refusal` and `logprobs`, which the specification requires"
)
NO_IMAGES = "the model reads no images: llama-server refuses the request, and toolgate passes the refusal on"
NO_MODEL = "the request names no model, which llama-server, serving a single one, accepts by design"
ALLOWED_FAILURES = {
    "chat-basic-response": NO_TOOLS,
    "chat-system-prompt": NO_TOOLS,
    "chat-multi-turn": NO_TOOLS,
    "chat-image-input": NO_IMAGES,
    "chat-error-handling": NO_MODEL,
    "anth-image-input": NO_IMAGES,
    "image-input": NO_IMAGES,
    "error-handling": NO_MODEL,
}
TESTS = {
    "openai-chat": [
        "chat-basic-response",
        "chat-system-prompt",
        "chat-multi-turn",
        "chat-tool-calling",
        "chat-streaming-response",
        "chat-streaming-usage",
        "chat-image-input",
        "chat-reasoning-summary",
        "chat-error-handling",
    ],
    "anthropic": [
        "anth-basic-response",
        "anth-system-prompt",
        "anth-multi-turn",
        "anth-tool-calling",
        "anth-streaming-response",
        "anth-streaming-usage",
        "anth-image-input",
        # Skipped unless the model has a name of Anthropic's.
        "anth-thinking-display",
        "anth-error-handling",
    ],
    "open-responses": [
        "basic-response",
        "system-prompt",
        "multi-turn",
        "tool-calling",
        "streaming-response",
        "streaming-usage",
        "image-input",
        "assistant-phase",
        "response-output-phase-schema",
        # Passes because nothing is there, which the suite accepts.
        "compact-response",
        "compact-missing-model",
        "reasoning-summary",
        "error-handling",
    ],
}


@pytest.fixture(scope="module")
def results(toolgate):
    """The results of a format, which runs when it is first asked for."""
    known = {}

    def results(format):
        if format not in known:
            known[format] = run(toolgate, format)
        return known[format]

    return results


def run(toolgate, format):
    model = toolgate.get("/v1/models").json["data"][0]["id"]
    command = [sys.executable, "-m", "llm_comply.cli", "--format", format, "--json", "--timeout", "120"]
    finished = subprocess.run(
        [*command, "-u", toolgate.url + "/v1", "-k", "none", "-m", model],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert finished.stdout, finished.stderr
    return {result["id"]: result for result in json.loads(finished.stdout)["results"]}


@pytest.mark.parametrize("format", TESTS)
def test_the_list_of_tests_is_complete(results, format):
    assert sorted(results(format)) == sorted(TESTS[format])


@pytest.mark.parametrize(("format", "name"), [(format, name) for format, names in TESTS.items() for name in names])
def test_conformance(results, format, name):
    result = results(format)[name]
    errors = "\n".join(result.get("errors", []))
    if result["status"] == "skipped":
        pytest.skip(errors)
    if name in ALLOWED_FAILURES:
        assert result["status"] == "failed", f"{name} passes now: take it off the list of allowed failures"
        pytest.xfail(ALLOWED_FAILURES[name])
    assert result["status"] == "passed", errors
