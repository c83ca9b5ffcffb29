"""Puts every case to every configuration and tells how many answers were right. Called by run.sh.

    score.py [--cases 8 | NAME,NAME] [--note KEY=VALUE]… --output FOLDER NAME=URL…

Writes reliability.json, with every answer, and reliability.md, the tables, into the folder. Exits 1 when an answer that came through
toolgate breaks the contract (see judge.py); wrong answers are counted and are no failure. The configuration named `direct` is the
model server without toolgate.
"""

import argparse
import http.client
import json
import sys
import time
from pathlib import Path
from statistics import mean
from urllib.parse import urlsplit

from cases import CASES
from judge import OUTCOMES, RIGHT, Answer, breach, outcome

DIRECT = "direct"
TEMPERATURES = (0, 0.7)
LEGEND = """\
Model calls and seconds are means over the cases. A call that is merely written in a text is none for a client: where a tool was due
it counts as text, where none was due as a call, since it is no answer either.
"""
# Four attempts of 256 tokens at the pace of a machine that is busy with other things.
ANSWER_SECONDS_MAX = 300


def main():
    options = read_options()
    cases = pick(options.cases)
    results = [
        measure(name, url, case, temperature)
        for name, url in options.configurations
        # Not the other way round: the second temperature would find the whole prompt in the model server's cache.
        for temperature in TEMPERATURES
        for case in cases
    ]
    rows = summaries(results)
    tables = f"{results_table(rows)}\n{LEGEND}\n{mistakes_table(rows)}"
    options.output.mkdir(parents=True, exist_ok=True)
    document = {"notes": dict(options.note), "summary": rows, "cases": results}
    (options.output / "reliability.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    (options.output / "reliability.md").write_text(tables)
    print(tables)
    breaches = [result for result in results if result["breach"]]
    for result in breaches:
        say(f"breach of the contract: {label(result)}: {result['breach']}")
    # The model server alone promises nothing.
    sys.exit(any(result["configuration"] != DIRECT for result in breaches))


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", default=str(len(CASES)))
    parser.add_argument("--note", type=pair, action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("configurations", type=pair, nargs="+")
    return parser.parse_args()


def pair(text):
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text} is not of the form KEY=VALUE")
    return key, value


def pick(which):
    """The cases of that number, spread over the sets and kinds, or those of these names; always in the order of the list."""
    if which.isdigit():
        if not 1 <= int(which) <= len(CASES):
            sys.exit(f"there are {len(CASES)} cases, not {which}")
        # Nine steps lead from one set to another place in one of the next, and to every case once.
        chosen = {CASES[9 * index % len(CASES)].name for index in range(int(which))}
    else:
        chosen = set(which.split(","))
        if unknown := chosen - {case.name for case in CASES}:
            sys.exit(f"no such case: {', '.join(sorted(unknown))}")
    return [case for case in CASES if case.name in chosen]


# === one case ===


def measure(configuration, url, case, temperature):
    began = time.monotonic()
    answer = ask(url, request(case, temperature))
    seconds = time.monotonic() - began
    result = {
        "configuration": configuration,
        "temperature": temperature,
        "case": case.name,
        "tool_due": case.call is not None,
        "outcome": outcome(answer, case),
        "breach": breach(answer, case.tools),
        "model_calls": model_calls(configuration, answer),
        "seconds": round(seconds, 3),
        "status": answer.status,
        "guardrail": answer.headers.get("x-toolgate-guardrail"),
        "answer": answer.json or answer.body.decode(errors="replace"),
    }
    say(f"{label(result):44} {seconds:6.1f} s  {result['outcome']}")
    return result


def request(case, temperature):
    return {
        "model": "any",
        "messages": [{"role": "user", "content": case.request}],
        "tools": case.tools,
        "temperature": temperature,
        # Its own for every case and temperature, the same for every configuration and in every subset.
        "seed": 100 * TEMPERATURES.index(temperature) + CASES.index(case) + 1,
        "max_tokens": 256,
        "stream": False,
    }


def ask(url, body):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS_MAX)
    # The explanation is for whoever reads the JSON file.
    headers = {"content-type": "application/json", "x-toolgate-explain": "1"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        return Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, repr(error).encode())
    finally:
        connection.close()


def model_calls(configuration, answer):
    """How often the model was asked; None where toolgate does not say."""
    if configuration == DIRECT:
        return 1
    attempts = answer.headers.get("x-toolgate-attempts")
    return int(attempts) if attempts else None


# === the tables ===


def summaries(results):
    """One for each configuration and temperature, in the order of the results."""
    groups = {}
    for result in results:
        groups.setdefault((result["configuration"], result["temperature"]), []).append(result)
    return [summary(group) for group in groups.values()]


def summary(group):
    right = [result for result in group if result["outcome"] == RIGHT]
    told = [result["model_calls"] for result in group if result["model_calls"] is not None]
    return {
        "configuration": group[0]["configuration"],
        "temperature": group[0]["temperature"],
        "cases": len(group),
        "cases_with_tool": sum(result["tool_due"] for result in group),
        "right": len(right),
        "right_with_tool": sum(result["tool_due"] for result in right),
        "outcomes": {each: sum(result["outcome"] == each for result in group) for each in OUTCOMES},
        "contract_kept": sum(result["breach"] is None for result in group),
        "model_calls_mean": round(mean(told), 2) if told else None,
        "seconds_mean": round(mean(result["seconds"] for result in group), 2),
    }


def results_table(rows):
    total, with_tool = rows[0]["cases"], rows[0]["cases_with_tool"]
    head = ["", "temperature", f"right, of {total}", f"a tool was due, of {with_tool}", f"none was due, of {total - with_tool}",
            "model calls", "seconds"]
    return table(head, [
        [title(row), row["temperature"], row["right"], row["right_with_tool"], row["right"] - row["right_with_tool"],
         row["model_calls_mean"], row["seconds_mean"]]
        for row in rows
    ])


def mistakes_table(rows):
    head = ["", "temperature", *OUTCOMES[1:], "valid call, text or typed error"]
    return table(head, [
        [title(row), row["temperature"], *(row["outcomes"][each] for each in OUTCOMES[1:]), f"{row['contract_kept']} of {row['cases']}"]
        for row in rows
    ])


def title(row):
    return "without toolgate" if row["configuration"] == DIRECT else f"`constrain = \"{row['configuration']}\"`"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n".replace("|  |", "| |") for line in lines)


def label(result):
    return f"{result['configuration']}, {result['temperature']}, {result['case']}"


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
