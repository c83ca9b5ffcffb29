// The official OpenAI package for Node.js, through toolgate, in front of a real model.
//
// Every answer is checked for what a strictly typed client relies on. What the model says is asserted only where any sane build
// of it agrees: at temperature 0 a question about the weather in Paris is a call of get_weather for Paris.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import OpenAI, { BadRequestError } from "openai";

const weatherQuestion = { role: "user", content: "What is the weather in Paris?" };
const greeting = { role: "user", content: "Say hello." };
const getWeather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather of a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
// Small, because the model is slow; the seed is for the odd build that samples at temperature 0.
const limits = { temperature: 0, seed: 1, max_tokens: 96 };
const finishReasons = ["stop", "length", "tool_calls", "content_filter"];

// Retries would hide a fault.
const client = new OpenAI({ baseURL: `${process.env.TOOLGATE_URL}/v1`, apiKey: "none", maxRetries: 0, timeout: 120_000 });
const chat = client.chat.completions;
let model;

before(async () => {
  model = (await client.models.list()).data[0].id;
});

function checkText(value) {
  assert.equal(typeof value, "string");
  assert.notEqual(value, "");
}

function checkUsage(usage) {
  for (const count of [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens]) {
    assert.ok(Number.isInteger(count) && count > 0);
  }
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
}

function checkMessage({ message, finish_reason }) {
  assert.equal(message.role, "assistant");
  assert.ok(finishReasons.includes(finish_reason), finish_reason);
  if (message.tool_calls === undefined) {
    assert.equal(typeof message.content, "string");
    assert.notEqual(finish_reason, "tool_calls");
    return;
  }
  assert.notEqual(message.tool_calls.length, 0, "an empty list of calls is neither an answer nor a call");
  assert.equal(finish_reason, "tool_calls");
  for (const call of message.tool_calls) {
    checkText(call.id);
    assert.equal(call.type, "function");
    checkText(call.function.name);
    assert.equal(typeof call.function.arguments, "string");
    assert.equal(typeof JSON.parse(call.function.arguments), "object");
  }
}

function checkCompletion(completion) {
  checkText(completion.id);
  assert.equal(completion.object, "chat.completion");
  assert.ok(Number.isInteger(completion.created));
  checkText(completion.model);
  assert.deepEqual(completion.choices.map((choice) => choice.index), [0]);
  checkMessage(completion.choices[0]);
  checkUsage(completion.usage);
  return completion.choices[0];
}

// Checks the order that the chunks of one answer must have; returns its content, its calls and its finish reason.
function checkChunks(chunks, { withUsage, guarded }) {
  // Without tools the backend's own chunks come through, and llama-server stamps each with the time it was made.
  for (const key of guarded ? ["id", "model", "created"] : ["id", "model"]) {
    assert.equal(new Set(chunks.map((chunk) => chunk[key])).size, 1, `${key} changes within one stream`);
  }
  for (const chunk of chunks) {
    checkText(chunk.id);
    assert.equal(chunk.object, "chat.completion.chunk");
    assert.ok(Number.isInteger(chunk.created));
    checkText(chunk.model);
  }

  if (withUsage) {
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    checkUsage(last.usage);
  }
  for (const chunk of chunks) {
    assert.equal(chunk.usage ?? null, null);
    assert.deepEqual(chunk.choices.map((choice) => choice.index), [0]);
  }

  const choices = chunks.map((chunk) => chunk.choices[0]);
  const [first, ...rest] = choices.map((choice) => choice.delta);
  assert.equal(first.role, "assistant");
  assert.ok(rest.every((delta) => delta.role === undefined));

  const finished = choices.pop();
  assert.ok(finishReasons.includes(finished.finish_reason), finished.finish_reason);
  assert.ok(!finished.delta.content && !finished.delta.tool_calls);
  assert.ok(choices.every((choice) => choice.finish_reason === null));

  const content = [first, ...rest].map((delta) => delta.content ?? "").join("");
  return { content, calls: checkCallDeltas([first, ...rest]), reason: finished.finish_reason };
}

function checkCallDeltas(deltas) {
  const calls = [];
  for (const part of deltas.flatMap((delta) => delta.tool_calls ?? [])) {
    if (part.index === calls.length) {
      checkText(part.id);
      assert.equal(part.type, "function");
      checkText(part.function.name);
      calls.push({ name: part.function.name, arguments: part.function.arguments ?? "" });
    } else {
      // Later parts belong to the last call: indices count up from 0, and nothing is said of a call twice.
      assert.equal(part.index, calls.length - 1);
      assert.deepEqual([part.id, part.type, part.function.name], [undefined, undefined, undefined]);
      assert.equal(typeof part.function.arguments, "string");
      calls.at(-1).arguments += part.function.arguments;
    }
  }
  return calls;
}

function checkWeatherCall(call) {
  assert.equal(call.name, "get_weather");
  assert.match(JSON.parse(call.arguments).city, /Paris/);
}

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

test("models", async () => {
  const { data } = await client.models.list();
  assert.notEqual(data.length, 0);
  for (const entry of data) {
    checkText(entry.id);
    assert.equal(entry.object, "model");
  }
});

test("plain", async () => {
  const choice = checkCompletion(await chat.create({ model, messages: [greeting], ...limits }));
  checkText(choice.message.content);
});

for (const withUsage of [false, true]) {
  const options = withUsage ? { stream: true, stream_options: { include_usage: true } } : { stream: true };
  const name = withUsage ? "with usage" : "without usage";

  test(`plain, streamed ${name}`, async () => {
    const chunks = await collect(await chat.create({ model, messages: [greeting], ...options, ...limits }));
    const { content, calls, reason } = checkChunks(chunks, { withUsage, guarded: false });
    checkText(content);
    assert.deepEqual(calls, []);
    assert.ok(["stop", "length"].includes(reason));
  });

  test(`tool call, streamed ${name}`, async () => {
    const chunks = await collect(
      await chat.create({ model, messages: [weatherQuestion], tools: [getWeather], ...options, ...limits }),
    );
    const { content, calls, reason } = checkChunks(chunks, { withUsage, guarded: true });
    assert.equal(content, "");
    assert.equal(reason, "tool_calls");
    checkWeatherCall(calls[0]);
  });
}

test("tool call", async () => {
  const completion = await chat.create({ model, messages: [weatherQuestion], tools: [getWeather], ...limits });
  const choice = checkCompletion(completion);
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(choice.message.content, null);
  checkWeatherCall(choice.message.tool_calls[0].function);
});

test("tool call, with the stream helper", async () => {
  const stream = chat.stream({ model, messages: [weatherQuestion], tools: [getWeather], ...limits });
  const done = [];
  stream.on("tool_calls.function.arguments.done", (event) => done.push(event));
  const completion = await stream.finalChatCompletion();
  checkMessage(completion.choices[0]);
  checkWeatherCall(completion.choices[0].message.tool_calls[0].function);
  assert.equal(done.length, completion.choices[0].message.tool_calls.length);
  checkWeatherCall(done[0]);
});

test("text, with the stream helper", async () => {
  const stream = chat.stream({ model, messages: [greeting], ...limits });
  let text = "";
  stream.on("content", (part) => (text += part));
  const content = await stream.finalContent();
  checkText(content);
  assert.equal(text, content);
});

for (const stream of [false, true]) {
  test(`follow-up with a tool result, ${stream ? "streamed" : "whole"}`, async () => {
    const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city": "Paris"}' } };
    const messages = [
      weatherQuestion,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: '{"temperature_celsius": 18, "sky": "sunny"}' },
    ];
    const answer = await chat.create({ model, messages, tools: [getWeather], stream, ...limits });
    // A model this small may call again instead of answering: both are answers of the right form.
    if (stream) {
      const { content, calls, reason } = checkChunks(await collect(answer), { withUsage: false, guarded: true });
      assert.ok(content || calls.length);
      assert.equal(reason === "tool_calls", calls.length > 0);
    } else {
      const { message } = checkCompletion(answer);
      assert.ok(message.content || message.tool_calls);
    }
  });
}

for (const tools of [[], [getWeather]]) {
  test(`bad request, with ${tools.length} tools`, async () => {
    await assert.rejects(chat.create({ model, messages: "not a list", tools }), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.equal(error.status, 400);
      assert.equal(error.param, "messages");
      assert.equal(error.type, "invalid_request_error");
      assert.match(error.error.message, /messages/);
      assert.ok("code" in error.error);
      return true;
    });
  });
}
