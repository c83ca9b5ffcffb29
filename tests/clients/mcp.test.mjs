// The official OpenAI package for Node.js asks for nothing but an answer, through a toolgate that runs the tools of a real MCP server, in
// front of a scripted backend.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

// As test.sh writes them into README.md.
const WORDS = "The lighthouse keeper counts 42 gulls.";

// Retries would hide a fault.
const client = new OpenAI({ baseURL: `${process.env.MCP_TOOLGATE_URL}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const request = { model: "read-me", messages: [{ role: "user", content: "Read README.md with the filesystem server." }] };

test("a file is read through a plain chat completion", async () => {
  const { choices } = await client.chat.completions.create(request);
  assert.equal(choices.length, 1);
  const [{ message, finish_reason: finishReason }] = choices;
  assert.deepEqual([message.content, message.tool_calls, finishReason], [WORDS, undefined, "stop"]);
});

test("a file is read through a streamed chat completion", async () => {
  const shown = [];
  const stream = client.chat.completions.stream(request);
  stream.on("content", (piece) => shown.push(piece));
  stream.on("chunk", ({ choices }) => assert.equal(choices[0]?.delta.tool_calls, undefined));
  const { choices } = await stream.finalChatCompletion();
  assert.deepEqual([choices[0].message.content, choices[0].finish_reason, shown.join("")], [WORDS, "stop", WORDS]);
});

test("a file is read through a response", async () => {
  const response = await client.responses.create({ model: request.model, input: request.messages[0].content });
  assert.deepEqual([response.output_text, response.output.map((item) => item.type)], [WORDS, ["message"]]);
});
