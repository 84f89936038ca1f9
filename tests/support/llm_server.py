"""An OpenAI-compatible server on loopback: a small honest model, and faults on demand."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

_BLOCK = re.compile(
    r"^=== BEGIN (?P<label>.+) (?P<fence>[0-9a-f]+) ===\n(?P<text>.*?)\n"
    r"=== END (?P=label) (?P=fence) ===$",
    re.DOTALL | re.MULTILINE,
)
_CHECK = re.compile(r"must be the string (\S+) which")


class Chat:
    """A request, as the model sees it."""

    def __init__(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.path, self.headers, self.body = path, headers, body

    @property
    def prompt(self) -> str:
        return "\n\n".join(message["content"] for message in self.body["messages"])

    @property
    def check(self) -> str:
        return str(_CHECK.findall(self.prompt)[-1])

    @property
    def blocks(self) -> dict[str, str]:
        """Fenced texts by label."""
        found = _BLOCK.finditer(self.body["messages"][-1]["content"])
        return {match["label"]: match["text"] for match in found}

    def numbered(self, kind: str) -> list[str]:
        return [text for label, text in self.blocks.items() if label.startswith(kind + " ")]

    @property
    def task(self) -> str:
        for task, sign in _SIGNS.items():
            if sign in self.prompt:
                return task
        raise AssertionError(self.prompt)


_SIGNS = {
    "extract": "list the factual claims",
    "verify": "decide for each numbered claim",
    "rubric": "grade the answer",
    "useful": "which of the numbered passages are useful",
    "prefer": "which of two answers",
    "tone": "grade the tone of",
    "polite": "say whether it is polite:",
}


class Fault(NamedTuple):
    """What happens instead of an answer. ``body`` may be a text or anything for JSON."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    cut: bool = False  # close in the middle of the body
    hang: bool = False  # answer nothing until the server closes
    drip: bool = False  # a byte now and then
    drip_headers: bool = False  # the same, and before any body


Step = Fault | Callable[[Chat], Any]


def error(status: int, message: str, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(status, {"error": {"message": message, "type": "error"}}, named)


def completion(content: Any, **message: Any) -> dict[str, Any]:
    """As the API answers."""
    finish = message.pop("finish_reason", "stop")
    said = {"role": "assistant", "content": content} | message
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "tiny",
        "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def says(content: str, **message: Any) -> Fault:
    """A model that says the same whatever it is asked."""
    return Fault(200, completion(content, **message))


def answer(chat: Chat) -> str:
    """The answer to grade."""
    return chat.blocks["answer"]


def honest(chat: Chat) -> dict[str, Any]:
    """Fields of the answer of a model that reads literally: a claim is a sentence."""
    passages = chat.numbered("passage")
    match chat.task:
        case "extract":
            return {"claims": [s.strip() for s in chat.blocks["text"].split(".") if s.strip()]}
        case "verify":
            found = [
                next((n for n, p in enumerate(passages, 1) if claim in p), None)
                for claim in chat.numbered("claim")
            ]
            return {
                "verdicts": [
                    {"claim": n, "supported": "yes" if at else "no", "chunk": at}
                    for n, at in enumerate(found, 1)
                ]
            }
        case "rubric":
            return {
                "justification": "It is so.",
                "faithfulness": 4,
                "relevance": 5,
                "completeness": 3,
                "conciseness": 1,
            }
        case "tone":
            return {"justification": "It is so.", "grade": 5 if "please" in answer(chat) else 2}
        case "polite":
            polite = "yes" if "please" in answer(chat) else "no"
            return {"justification": "It is so.", "verdict": polite}
        case "prefer":
            wanted = chat.blocks.get("reference", "")
            said = {chat.blocks[f"{at} answer"]: at for at in ("second", "first")}
            return {"justification": "It is so.", "better": said.get(wanted, "tie")}
        case _:
            words = set(re.findall(r"\w{4,}", chat.blocks["question"].lower()))
            return {
                "useful": [
                    n
                    for n, p in enumerate(passages, 1)
                    if words & set(re.findall(r"\w{4,}", p.lower()))
                ]
            }


def with_fields(**fields: Any) -> Callable[[Chat], Any]:
    """An answer with the right token and these fields in place of the honest ones."""
    return lambda chat: completion(json.dumps({"check": chat.check} | honest(chat) | fields))


class LlmServer:
    """Answers each request by the next step of the script, and honestly after its end."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.script: list[Step] = []
        self.always: Step | None = None
        self.chats: list[Chat] = []
        self.most_at_once = 0
        self.gate: threading.Event | None = None  # requests wait here when there is one
        self.closing = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()

    @contextmanager
    def taking(self, chat: Chat) -> Iterator[Step]:
        """The step that a request meets."""
        with self._lock:
            self.chats.append(chat)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
            step = self.script.pop(0) if self.script else self.always or with_fields()
        if self.gate is not None:
            self.gate.wait(10)
        try:
            yield step
        finally:
            with self._lock:
                self._under_way -= 1

    @property
    def tasks(self) -> list[str]:
        return [chat.task for chat in self.chats]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    llm: LlmServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        found = self.path.startswith("/v1/models")
        self._send(Fault(200, {"data": [{"id": "tiny"}]}) if found else error(404, "no"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = Chat(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        with self.server.llm.taking(chat) as step:
            answer = step if isinstance(step, Fault) else step(chat)
            self._send(answer if isinstance(answer, Fault) else Fault(200, answer))

    def _send(self, fault: Fault) -> None:
        if fault.hang:
            self.server.llm.closing.wait(10)
            self.close_connection = True
            return
        if fault.drip_headers:
            self._drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000)
            return
        text = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
        data = text.encode()
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault.drip:
            self._drip(data)
        else:
            self.wfile.write(data[: len(data) // 2] if fault.cut else data)
            self.close_connection = fault.cut

    def _drip(self, data: bytes) -> None:
        self.close_connection = True
        for at in range(len(data)):
            try:
                self.wfile.write(data[at : at + 1])
            except OSError:
                return
            if self.server.llm.closing.wait(0.02):
                return

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[LlmServer]:
    """A server of one's own."""
    http = _Server(("127.0.0.1", 0), _Handler)
    http.llm = LlmServer(http.server_address[1])
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield http.llm
    finally:
        http.llm.closing.set()
        http.shutdown()
        thread.join()
        http.server_close()
