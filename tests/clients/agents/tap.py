"""Listens between an agent and toolgate: it hands on every byte as it comes, and can tell afterwards what was asked and answered."""

import json
import socket
import threading
import time
from dataclasses import dataclass, field

BLANK_LINE = b"\r\n\r\n"


@dataclass
class Message:
    """A request or an answer over HTTP/1.1."""

    # When its first byte came.
    moment: float
    first_line: str
    headers: dict
    body: bytes

    @property
    def path(self):
        return self.first_line.split()[1].partition("?")[0]

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The data of the events of a stream, those that are JSON."""
        data = [line[len("data:") :].strip() for line in self.body.decode().split("\n") if line.startswith("data:")]
        return [json.loads(event) for event in data if event.startswith("{")]


@dataclass
class Recording:
    """What one side sent over one connection."""

    pieces: list = field(default_factory=list)

    def add(self, piece):
        self.pieces.append((time.monotonic(), piece))

    def messages(self):
        """The messages in it."""
        sent = b"".join(piece for _, piece in self.pieces)
        rest = sent
        while BLANK_LINE in rest:
            moment = self._moment(len(sent) - len(rest))
            head, _, rest = rest.partition(BLANK_LINE)
            first_line, *lines = head.decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if headers.get("transfer-encoding") == "chunked":
                body, rest = unchunked(rest)
            else:
                length = int(headers.get("content-length", 0))
                body, rest = rest[:length], rest[length:]
            yield Message(moment, first_line, headers, body)

    def _moment(self, offset):
        for moment, piece in self.pieces:
            offset -= len(piece)
            if offset < 0:
                return moment
        raise IndexError(offset)


class Tap:
    """Listens from its construction until `close`."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._connections = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self):
        # Closing alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def exchanges(self):
        """Every request with its answer, in the order of the requests. An answer that never began is None."""
        pairs = []
        for asked, answered in self._connections:
            answers = answered.messages()
            pairs += [(request, next(answers, None)) for request in asked.messages()]
        return sorted(pairs, key=lambda pair: pair[0].moment)

    def _listen(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            asked, answered = Recording(), Recording()
            self._connections.append((asked, answered))
            for source, sink, recording in ((client, server, asked), (server, client, answered)):
                threading.Thread(target=hand_on, args=(source, sink, recording), daemon=True).start()


def hand_on(source, sink, recording):
    """Until one of the two hangs up, or is gone."""
    try:
        while piece := source.recv(65536):
            recording.add(piece)
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            end.close()


def unchunked(rest):
    """A body in chunks, as far as it came, and what follows it."""
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body += rest[:length]
        rest = rest[length + 2 :]
        if length == 0:
            break
    return body, rest
