"""Cline, over chat completions."""

from chat_completions import check_exchanges


SETTINGS = ".cline/data/settings"


def test_a_shell_command(bench):
    bench.write(bench.home / SETTINGS / "global-settings.json", {"telemetryOptOut": True, "autoUpdateEnabled": False})
    # As `cline auth` writes it, which takes as long as the task.
    bench.write(
        bench.home / SETTINGS / "providers.json",
        {
            "version": 1,
            "lastUsedProvider": "openai-compatible",
            "providers": {
                "openai-compatible": {
                    "settings": {
                        "provider": "openai-compatible",
                        "apiKey": "none",
                        "model": "scripted",
                        "baseUrl": f"{bench.url}/v1",
                    },
                    "updatedAt": "2026-01-01T00:00:00.000Z",
                    "tokenSource": "manual",
                }
            },
        },
    )
    # By itself it starts a daemon, or takes one that already runs on this machine, and leaves it running.
    outcome = bench.run("cline", "--provider=openai-compatible", "--model=scripted", "--json", bench.prompt, CLINE_SESSION_BACKEND_MODE="local")
    bench.check(outcome)
    check_exchanges(bench)
