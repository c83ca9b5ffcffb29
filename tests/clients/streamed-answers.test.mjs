// Streamed answers as clients for Node.js fold them that others wrote, through toolgate, in front of a scripted backend.
//
// Every client is told the same answers (scripted_backend.py) and must come to the same result.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, StreamProviderError, jsonSchema, streamText, tool } from "ai";
import OpenAI, { APIError, InternalServerError } from "openai";

// As scripted_backend.py says them.
const TEXT = 'She said "hello"\\ in Zürich 😀\nand left.';
const REASONING = "They only want to chat 🤔.";
const LAST_OF_REASONING = "chat 🤔.";
const USAGE = [7, 5];

const baseURL = `${process.env.SCRIPTED_TOOLGATE_URL}/v1`;
const question = "What is the weather in Paris?";
const description = "Get the current weather of a city.";
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

// Each client has a `fold`: it appends what it shows on the way to `shown`, and returns what it made of the stream.
// Retries are off, since they would hide a fault.

const openai = {
  toolCallsReason: "tool_calls",
  // The helper keeps fields that it does not know, but of each only the last piece. The pieces themselves come with its chunks.
  finalReasoning: LAST_OF_REASONING,
  checkStreamError: (error) => assert.ok(error instanceof APIError && error.status === undefined, error),
  checkStatusError(error, status) {
    assert.ok(error instanceof InternalServerError, error);
    assert.equal(error.status, status);
  },

  async fold(script, shown) {
    const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0, timeout: 30_000 });
    const stream = client.chat.completions.stream({
      model: script,
      messages: [{ role: "user", content: question }],
      tools: [{ type: "function", function: { name: "get_weather", description, parameters: city } }],
      stream_options: { include_usage: true },
    });
    stream.on("content", (piece) => shown.text.push(piece));
    stream.on("chunk", ({ choices }) => shown.reasoning.push(choices[0]?.delta.reasoning_content ?? ""));
    const { choices, usage } = await stream.finalChatCompletion();
    assert.equal(choices.length, 1);
    const { message, finish_reason: finishReason } = choices[0];
    return {
      text: message.content ?? "",
      calls: (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
      finishReason,
      usage: [usage.prompt_tokens, usage.completion_tokens],
      reasoning: message.reasoning_content,
    };
  },
};

const aiSdk = {
  toolCallsReason: "tool-calls", // Its own word.
  finalReasoning: REASONING,
  checkStreamError: (error) => assert.ok(StreamProviderError.isInstance(error), error),
  checkStatusError(error, status) {
    assert.ok(APICallError.isInstance(error), error);
    assert.equal(error.statusCode, status);
  },

  async fold(script, shown) {
    const result = streamText({
      model: createOpenAICompatible({ name: "toolgate", baseURL, includeUsage: true })(script),
      prompt: question,
      tools: { get_weather: tool({ description, inputSchema: jsonSchema(city) }) },
      maxRetries: 0,
      // An error is a part of the stream too; the default is to print it.
      onError() {},
    });
    for await (const part of result.stream) {
      if (part.type === "text-delta") shown.text.push(part.text);
      if (part.type === "reasoning-delta") shown.reasoning.push(part.text);
      // The package does not throw it: to who reads `result.text` alone, a half answer is a whole one with another finish reason.
      if (part.type === "error") throw part.error;
    }
    const usage = await result.usage;
    return {
      text: await result.text,
      calls: (await result.toolCalls).map((call) => [call.toolName, call.input]),
      finishReason: await result.finishReason,
      usage: [usage.inputTokens, usage.outputTokens],
      reasoning: await result.reasoningText,
    };
  },
};

for (const [name, client] of Object.entries({ openai, "AI SDK": aiSdk })) {
  describe(name, () => {
    const checkFold = async (script, expected) => {
      const shown = { text: [], reasoning: [] };
      const answer = await client.fold(script, shown);
      for (const key of Object.keys(expected)) assert.deepEqual(answer[key], expected[key], key);
      assert.equal(shown.text.join(""), answer.text);
      return { shown, answer };
    };

    test("what the model says through respond is text", () =>
      checkFold("respond", { text: TEXT, calls: [], finishReason: "stop", usage: USAGE, reasoning: undefined }));

    test("a tool call", () =>
      checkFold("weather", { text: "", calls: [["get_weather", { city: "Paris" }]], finishReason: client.toolCallsReason, usage: USAGE }));

    test("reasoning stands apart from the text", async () => {
      const { shown } = await checkFold("reasoning", { text: TEXT, calls: [], finishReason: "stop", reasoning: client.finalReasoning });
      assert.equal(shown.reasoning.join(""), REASONING);
    });

    test("a corrected attempt is not seen", () =>
      checkFold("unknown-tool-first", { text: "", calls: [["get_weather", { city: "Paris" }]], finishReason: client.toolCallsReason }));

    test("a backend that dies in the middle is an error", async () => {
      const shown = { text: [], reasoning: [] };
      await assert.rejects(client.fold("cut", shown), (error) => {
        client.checkStreamError(error);
        assert.match(error.message, /connection broke/);
        return true;
      });
      const text = shown.text.join("");
      assert.ok(text && text !== TEXT && TEXT.startsWith(text), text);
    });

    // The head with its status 200 has left, and nothing else.
    test("a late refusal is an error", async () => {
      const shown = { text: [], reasoning: [] };
      await assert.rejects(client.fold("refuse-late", shown), (error) => {
        client.checkStreamError(error);
        assert.match(error.message, /the model fell over/);
        return true;
      });
      assert.deepEqual(shown.text, []);
    });

    for (const [script, status, message] of [
      ["refuse", 500, /fell over/],
      ["hang-up", 502, /connection broke/],
    ]) {
      test(`an error before anything was shown has its status, ${status}`, () =>
        assert.rejects(client.fold(script, { text: [], reasoning: [] }), (error) => {
          client.checkStatusError(error, status);
          assert.match(error.message, message);
          return true;
        }));
    }
  });
}
