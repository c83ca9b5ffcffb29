"""opencode, over chat completions."""

from chat_completions import check_exchanges


def test_a_shell_command(bench):
    bench.write(
        "opencode.json",
        {
            "permission": {"bash": "allow"},
            "provider": {
                "toolgate": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{bench.url}/v1", "apiKey": "none"},
                    "models": {"scripted": {"tool_call": True}},
                }
            },
            "autoupdate": False,
            "share": "disabled",
        },
    )
    outcome = bench.run(
        "opencode",
        "run",
        "--model=toolgate/scripted",
        bench.prompt,
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        # It fetches the package that plugins are written with.
        npm_config_offline="true",
    )
    bench.check(outcome)
    check_exchanges(bench)
