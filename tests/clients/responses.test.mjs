// OpenAI's Responses as the official package for Node.js reads them, through toolgate, in front of a scripted backend.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import OpenAI, { APIError, BadRequestError, InternalServerError, NotFoundError } from "openai";

// As scripted_backend.py says them.
const TEXT = 'She said "hello"\\ in Zürich 😀\nand left.';
const PATCH = '*** Begin Patch\n+She said "hello"\\ in Zürich 😀\n*** End Patch';
const REASONING = "They only want to chat 🤔.";
const USAGE = [7, 5, 12];

const question = "What is the weather in Paris?";
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const getWeather = { type: "function", name: "get_weather", description: "Get the weather of a city.", strict: true, parameters: city };

// Retries would hide a fault.
const client = new OpenAI({ baseURL: `${process.env.SCRIPTED_TOOLGATE_URL}/v1`, apiKey: "none", maxRetries: 0, timeout: 30_000 });
const request = (script, more) => ({ model: script, input: question, tools: [getWeather], ...more });

const ways = {
  whole: (body) => client.responses.create(body),

  async streamed(body) {
    const events = [];
    for await (const event of await client.responses.create({ ...body, stream: true })) events.push(event);
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.equal(events.at(-1).type, "response.completed");
    return events.at(-1).response;
  },

  helper: (body) => client.responses.stream(body).finalResponse(),
};

for (const [name, way] of Object.entries(ways)) {
  describe(name, () => {
    const ask = async (script, more) => {
      const response = await way(request(script, more));
      assert.deepEqual([response.object, response.status, response.error], ["response", "completed", null]);
      const { input_tokens, output_tokens, total_tokens } = response.usage;
      // All attempts are counted.
      const attempts = script === "unknown-tool-first" ? 2 : 1;
      assert.deepEqual([input_tokens, output_tokens, total_tokens], USAGE.map((count) => attempts * count));
      return response;
    };
    const textOf = (response) => response.output.flatMap((item) => item.content ?? []).map((part) => part.text).join("");

    test("what the model says through respond is output text", async () => assert.equal(textOf(await ask("respond")), TEXT));

    for (const script of ["weather", "unknown-tool-first"]) {
      test(`a tool call, ${script}`, async () => {
        const [call, ...others] = (await ask(script)).output;
        assert.deepEqual([call.type, call.name, JSON.parse(call.arguments)], ["function_call", "get_weather", { city: "Paris" }]);
        assert.deepEqual(others, []);
      });
    }

    test("a custom tool call", async () => {
      const [call] = (await ask("patch", { tools: [{ type: "custom", name: "apply_patch" }] })).output;
      assert.deepEqual([call.type, call.name, call.input], ["custom_tool_call", "apply_patch", PATCH]);
    });

    for (const summary of [null, "auto"]) {
      test(`reasoning stands apart from the text, summary ${summary}`, async () => {
        const [reasoning, message] = (await ask("reasoning", { reasoning: { summary } })).output;
        assert.equal((summary ? reasoning.summary : reasoning.content).map((part) => part.text).join(""), REASONING);
        assert.equal(message.content[0].text, TEXT);
      });
    }

    test("a result is told", async () => {
      const input = [{ role: "user", content: question }];
      const { output } = await ask("result-told", { input });
      // The items go back as they came.
      const result = { type: "function_call_output", call_id: output[0].call_id, output: TEXT };
      assert.equal(textOf(await ask("result-told", { input: [...input, ...output, result] })), TEXT);
    });

    test("a refusal keeps its status", () =>
      assert.rejects(way(request("refuse")), (error) => error instanceof InternalServerError && /fell over/.test(error.message)));
  });
}

test("a backend that dies in the middle is an error", async () => {
  let shown = "";
  const read = async () => {
    for await (const event of await client.responses.create({ ...request("cut"), stream: true })) {
      if (event.type === "response.output_text.delta") shown += event.delta;
    }
  };
  await assert.rejects(read, (error) => error instanceof APIError && error.status === undefined);
  assert.ok(shown && TEXT.startsWith(shown), shown);
});

test("nothing is stored", async () => {
  const { id } = await client.responses.create(request("respond"));
  await assert.rejects(client.responses.retrieve(id), NotFoundError);
  await assert.rejects(
    client.responses.create(request("respond", { previous_response_id: id })),
    (error) => error instanceof BadRequestError && error.param === "previous_response_id",
  );
});
