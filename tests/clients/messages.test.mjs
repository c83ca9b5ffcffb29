// Messages as Anthropic's own client for Node.js reads them, whole and streamed, through toolgate, in front of a scripted backend.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import Anthropic, { APIError, BadRequestError, InternalServerError } from "@anthropic-ai/sdk";

// As scripted_backend.py says them.
const TEXT = 'She said "hello"\\ in Zürich 😀\nand left.';
const REASONING = "They only want to chat 🤔.";
const USAGE = [7, 5];

// Retries would hide a fault.
const client = new Anthropic({ baseURL: process.env.SCRIPTED_TOOLGATE_URL, apiKey: "none", maxRetries: 0, timeout: 30_000 });
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const request = {
  max_tokens: 2048,
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: "What is the weather in Paris?" }],
  tools: [{ name: "get_weather", description: "Get the current weather of a city.", input_schema: city }],
};
const thinking = { type: "enabled", budget_tokens: 1024 };

// Each way of asking appends what it shows to `shown`, and returns the message that it made.
const ways = {
  create: (script, shown, more) => client.messages.create({ model: script, ...request, ...more }),
  stream: (script, shown, more) =>
    client.messages
      .stream({ model: script, ...request, ...more })
      .on("text", (piece) => shown.text.push(piece))
      .on("thinking", (piece) => shown.thinking.push(piece))
      .finalMessage(),
};

for (const [name, way] of Object.entries(ways)) {
  describe(name, () => {
    const ask = async (script, more = {}) => {
      const shown = { text: [], thinking: [] };
      const message = await way(script, shown, more);
      assert.match(message.id, /^msg_/);
      const text = message.content.map((block) => block.text ?? "").join("");
      if (name === "stream") assert.equal(shown.text.join(""), text);
      return { message, shown };
    };

    test("what the model says through respond is text", async () => {
      const { message } = await ask("respond");
      assert.deepEqual(message.content, [{ type: "text", text: TEXT, citations: null }]);
      assert.deepEqual([message.stop_reason, message.usage.input_tokens, message.usage.output_tokens], ["end_turn", ...USAGE]);
    });

    for (const script of ["weather", "unknown-tool-first"]) {
      test(`a tool call, ${script}`, async () => {
        const { message } = await ask(script);
        const [call] = message.content;
        assert.deepEqual([message.content.length, call.type, call.name, call.input], [1, "tool_use", "get_weather", { city: "Paris" }]);
        assert.equal(message.stop_reason, "tool_use");
      });
    }

    test("thinking stands apart from the text", async () => {
      const { message, shown } = await ask("reasoning", { thinking });
      assert.deepEqual(message.content.map((block) => block.thinking ?? block.text), [REASONING, TEXT]);
      if (name === "stream") assert.equal(shown.thinking.join(""), REASONING);
      assert.deepEqual((await ask("reasoning")).message.content.map((block) => block.type), ["text"]);
    });

    for (const [script, status, said] of [
      ["refuse", 500, /fell over/],
      ["hang-up", 502, /connection broke/],
    ]) {
      test(`an error before anything was shown has its status, ${status}`, () =>
        assert.rejects(ask(script), (error) => {
          assert.ok(error instanceof InternalServerError, error);
          assert.deepEqual([error.status, error.type, error.error.request_id], [status, "api_error", error.requestID]);
          assert.match(error.message, said);
          return true;
        }));
    }
  });
}

test("a backend that dies in the middle is an error", async () => {
  const shown = { text: [], thinking: [] };
  await assert.rejects(ways.stream("cut", shown), (error) => {
    assert.ok(error instanceof APIError, error);
    assert.match(error.message, /connection broke/);
    return true;
  });
  const text = shown.text.join("");
  assert.ok(text && text !== TEXT && TEXT.startsWith(text), text);
});

// The head with its status 200 has left, and nothing else.
test("a late refusal is an error", async () => {
  const shown = { text: [], thinking: [] };
  await assert.rejects(ways.stream("refuse-late", shown), /the model fell over/);
  assert.deepEqual(shown.text, []);
});

test("a fault of the request is named", () =>
  assert.rejects(client.messages.create({ model: "respond", max_tokens: 9, messages: [{ role: "user" }] }), (error) => {
    assert.ok(error instanceof BadRequestError, error);
    assert.match(error.message, /messages\.0\.content/);
    return true;
  }));

test("the tokens of a request are counted", async () => {
  const { input_tokens: tokens } = await client.messages.countTokens({ model: "any", messages: request.messages });
  assert.ok(tokens > 1 && tokens < 100, tokens);
});
