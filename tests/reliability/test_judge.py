"""Tests of the judging, and of the cases themselves. Run by run.sh before anything is measured."""

import json
import unittest
from collections import Counter

import jsonschema
from cases import CASES, Case, array, choice, integer, string, tool
from judge import CALL_NOT_DUE, ERROR, RIGHT, TEXT_NOT_DUE, WRONG_ARGUMENTS, WRONG_TOOL, Answer, breach, is_written_call, outcome
from matchers import any_case, anything, matcher, near, one_of, optional, set_of, words
from score import pick

TOOLS = [
    tool("light", "", 1, room=choice("kitchen", "attic"), percent=integer(maximum=100)),
    tool("mail", "", 1, to=array(string()), text=string()),
]
DUE = Case("due", "", TOOLS, ("light", {"room": "attic", "percent": optional(30)}))
NOT_DUE = Case("not due", "", TOOLS, None)


def call(name, arguments, identity="call_0"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": text}}


def completion(content=None, calls=(), finish_reason=None):
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return Answer(200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode())


def problem(status, body):
    return Answer(status, json.dumps(body).encode())


RIGHT_CALL = call("light", {"room": "attic"})
TYPED_ERROR = problem(502, {"error": {"message": "retries exhausted", "type": "tool_call_error", "param": None, "code": None}})
WRITTEN = 'Sure:\n```json\n{"name": "light", "arguments": {"room": "attic"}}\n```'


class Matchers(unittest.TestCase):
    def check(self, expected, right, wrong):
        for value in [*right, matcher(expected).example]:
            self.assertTrue(matcher(expected).accepts(value), value)
        for value in wrong:
            self.assertFalse(matcher(expected).accepts(value), value)

    def test_values_stand_for_themselves(self):
        self.check("Zoë", ["Zoë"], ["zoë", "Zoe", None])
        self.check(1, [1, 1.0], [2, "1", True, None])
        self.check(True, [True], [False, 1, "true"])
        self.check([1, 2], [[1, 2]], [[2, 1], [1], [1, 2, 3], "12", None])

    def test_texts(self):
        self.check(any_case("Paris", "Paris, France"), ["paris", " PARIS ", "Paris, france"], ["Paris, Texas", "", 1, None])
        self.check(words("vegan", "Berlin"), ["Vegan food in berlin"], ["vegan food", "", 1, None])

    def test_numbers(self):
        self.check(near(2.5, within=0.1), [2.5, 2.55], [2.7, "2.5", True, None])

    def test_choices(self):
        self.check(one_of("src", any_case("Lib")), ["src", "LIB"], ["SRC", None])
        self.check(anything(1), [1, None, "x"], [])

    def test_sets(self):
        self.check(set_of(1, 2, 2), [[1, 2, 2], [2, 1, 2]], [[1, 2], [1, 1, 2], [1, 2, 2, 2], "122", None])
        self.check(set_of({"a": 1}, {"a": 2}), [[{"a": 2}, {"a": 1}]], [[{"a": 1}, {"a": 1}]])

    def test_objects(self):
        self.check({"a": {"b": 1}, "c": optional(2)}, [{"a": {"b": 1}}, {"a": {"b": 1}, "c": 2}],
                   [{}, {"a": {}}, {"a": {"b": 1}, "c": 3}, {"a": {"b": 1}, "d": 1}, [], None])


class Outcomes(unittest.TestCase):
    def check(self, expected, case, *answers):
        for answer in answers:
            self.assertEqual(outcome(answer, case), expected, answer.body)

    def test_a_call_is_due(self):
        self.check(RIGHT, DUE, completion(calls=[RIGHT_CALL]), completion("I do it.", [call("light", {"room": "attic", "percent": 30})]))
        self.check(WRONG_TOOL, DUE, completion(calls=[call("mail", {"to": ["a"]})]), completion(calls=[call("fly", {})]),
                   completion(calls=[RIGHT_CALL, call("mail", {"to": ["a"]})]))
        self.check(WRONG_ARGUMENTS, DUE, completion(calls=[call("light", {"room": "kitchen"})]), completion(calls=[call("light", "{")]),
                   completion(calls=[call("light", {"room": "attic", "percent": 31})]), completion(calls=[RIGHT_CALL, RIGHT_CALL]))
        self.check(TEXT_NOT_DUE, DUE, completion("The light is on."), completion(WRITTEN))
        self.check(ERROR, DUE, TYPED_ERROR, Answer(0, b"refused"), Answer(200, b"oops"), problem(200, {"choices": []}))

    def test_no_call_is_due(self):
        self.check(RIGHT, NOT_DUE, completion("Hello!"))
        self.check(CALL_NOT_DUE, NOT_DUE, completion(calls=[RIGHT_CALL]), completion(WRITTEN))
        self.check(ERROR, NOT_DUE, TYPED_ERROR, completion(""), completion(None), completion("  "))

    def test_written_calls(self):
        for text in (WRITTEN, '{"name": "say", "parameters": {}}', '<tool_call>\n{"name": ', '[{"name": "a", "arguments": "{}"}]'):
            self.assertTrue(is_written_call(text), text)
        for text in ("", "Hello {name}!", '{"name": "Ada"}', "the tool light takes arguments", '{"temperature": 3}'):
            self.assertFalse(is_written_call(text), text)


class Contract(unittest.TestCase):
    def test_what_keeps_it(self):
        for answer in (completion("Hello!"), completion("Hel", finish_reason="length"), completion("", finish_reason="length"),
                       completion(calls=[RIGHT_CALL]), completion(calls=[RIGHT_CALL, call("mail", {"to": ["a"]}, "call_1")]), TYPED_ERROR):
            self.assertIsNone(breach(answer, TOOLS), answer.body)

    def test_what_breaks_it(self):
        for answer in (completion(""), completion(None), completion("Hello!", finish_reason="tool_calls"),
                       completion(calls=[RIGHT_CALL], finish_reason="stop"), completion(calls=[RIGHT_CALL, RIGHT_CALL]),
                       completion(calls=[call("fly", {})]), completion(calls=[call("light", "{")]), completion(calls=[call("light", "[]")]),
                       completion(calls=[call("light", {"room": "cellar"})]), completion(calls=[call("light", {"room": "attic", "x": 1})]),
                       completion(calls=[RIGHT_CALL, call("light", {}, "call_1")]), completion(calls=[{"id": "call_0"}]),
                       completion(calls=[{**RIGHT_CALL, "id": ""}]), problem(502, {"error": "oops"}), Answer(500, b""),
                       Answer(200, b"oops"), problem(200, {"choices": []}), Answer(0, b"refused")):
            self.assertIsNotNone(breach(answer, TOOLS), answer.body)


class Cases(unittest.TestCase):
    def test_there_are_forty(self):
        self.assertEqual(len({case.name for case in CASES}), 40)
        self.assertEqual(sum(case.call is None for case in CASES), 10)
        self.assertEqual({len(case.tools) for case in CASES}, {4})

    def test_each_tool_is_right_at_most_twice(self):
        self.assertLessEqual(max(Counter(case.call[0] for case in CASES if case.call).values()), 2)

    def test_each_can_be_solved(self):
        for case in CASES:
            for each in case.tools:
                jsonschema.Draft202012Validator.check_schema(each["function"]["parameters"])
            if case.call:
                name, arguments = case.call
                answer = completion(calls=[call(name, matcher(arguments).example)])
                self.assertIsNone(breach(answer, case.tools), case.name)
                self.assertEqual(outcome(answer, case), RIGHT, case.name)

    def test_a_sample_holds_both_kinds(self):
        self.assertEqual(pick("40"), CASES)
        for count in (4, 5, 8, 13):
            sample = pick(str(count))
            self.assertEqual(len({case.name for case in sample}), count)
            self.assertEqual({case.call is None for case in sample}, {True, False})
        self.assertEqual([case.name for case in pick("units-none,weather-now")], ["weather-now", "units-none"])
        for wrong in ("0", "41", "weather-now,nothing", ""):
            self.assertRaises(SystemExit, pick, wrong)


if __name__ == "__main__":
    unittest.main()
