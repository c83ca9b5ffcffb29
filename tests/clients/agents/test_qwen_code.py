"""Qwen Code, over chat completions."""

from chat_completions import check_exchanges


def test_a_shell_command(bench):
    bench.write(
        bench.home / ".qwen/settings.json",
        {
            "general": {"enableAutoUpdate": False},
            # Else it may ask what is worth remembering before it ends, with a shell among the tools.
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
            "privacy": {"usageStatisticsEnabled": False},
        },
    )
    outcome = bench.run(
        "qwen",
        "--auth-type=openai",
        "--yolo",
        "--prompt",
        bench.prompt,
        OPENAI_API_KEY="none",
        OPENAI_BASE_URL=f"{bench.url}/v1",
        OPENAI_MODEL="scripted",
    )
    bench.check(outcome)
    check_exchanges(bench)
