"""A budget that is used up, as the official packages for Python read it: they do not come again."""

import os

import anthropic
import httpx
import httpx2
import openai
import pytest

URL = os.environ["BUDGET_TOOLGATE_URL"]
MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]


def counting(http, deaf=False):
    """A transport of the package `http` that counts what is sent; with `deaf`, nobody hears the word on retrying."""

    class Counting(http.HTTPTransport):
        sent = 0

        def handle_request(self, request):
            self.sent += 1
            response = super().handle_request(request)
            if deaf:
                del response.headers["x-should-retry"]
            return response

    return Counting()


def ask_openai(transport, **more):
    with openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=2, http_client=httpx.Client(transport=transport)) as client:
        client.chat.completions.create(model="weather", messages=MESSAGES, **more)


@pytest.mark.parametrize("stream", [False, True])
def test_a_spent_budget_is_not_tried_again(stream):
    transport = counting(httpx)
    with pytest.raises(openai.RateLimitError) as caught:
        ask_openai(transport, stream=stream)
    assert (caught.value.status_code, caught.value.code, transport.sent) == (429, "insufficient_quota", 1)


def test_without_the_header_it_would_be():
    transport = counting(httpx, deaf=True)
    with pytest.raises(openai.RateLimitError):
        ask_openai(transport)
    assert transport.sent == 3


def test_anthropics_client_does_not_either():
    transport = counting(httpx2)
    with anthropic.Anthropic(base_url=URL, api_key="none", max_retries=2, http_client=httpx2.Client(transport=transport)) as client:
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(model="weather", max_tokens=99, messages=MESSAGES)
    assert transport.sent == 1
