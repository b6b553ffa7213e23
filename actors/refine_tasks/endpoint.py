"""A question to a language model behind any endpoint that speaks OpenAI's chat completions over HTTP.

One model plays all parts: it answers, criticises, improves and scores, each by a prompt of its own.  No model ships
with Shusaku, and a score is the model's own opinion, not a proof.
"""

import http.client
import ipaddress
import json
import math
import os
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any, ClassVar, NoReturn
from urllib.parse import urlsplit

from shusaku.actors.refine import HIGHEST_SCORE, LOWEST_SCORE, TaskEnded
from shusaku.common.errors import UsageError
from shusaku.common.masking import MASK

MOST_BYTES = 8 << 20  # of a reply
MOST_QUESTION = 1 << 20  # characters
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds before the next attempt: doubled each time
PASSING = frozenset({408, 409, 425, 429})  # and all from 500 up: the same request may succeed later
CHUNK = 1 << 16

ANSWER = "Answer the question below. Show the steps that lead to the answer, and end with the answer itself."
CRITIQUE = ("Below are a question and an answer to it. Find what is wrong, missing or unproven in the answer, one "
            "point a line, as strictly as you can. Do not write a new answer.")
REFINE = ("Below are a question, an answer to it, and a criticism of that answer. Write a better answer, complete in "
          "itself, that heeds the criticism where it is right. Show the steps, and end with the answer itself.")
SCORE = ("Below are a question and an answer to it. Look for every error and judge strictly, from -100 (worthless) to "
         "100 (right in every step, without any doubt). Give your reasons in a few sentences, then write one last line "
         "of the form\nScore: NUMBER")
_SCORE = re.compile(r"\bscore\W{0,10}?(-?\d+(?:\.\d+)?)", re.IGNORECASE)


class Endpoint:
    """A question, and the endpoint that works on it; safe to call from several threads.

    An attempt that fails for a passing reason (no connection, a time-out, a reply that is none, status 408, 409, 425,
    429 or 5xx) is repeated after a pause; every attempt counts as a call.  When `calls` are spent, or if the endpoint
    refuses a request for good, TaskEnded ends the search.
    """

    parameter_help: ClassVar = {
        "url": "such as http://127.0.0.1:8000/v1, to which /chat/completions is added",
        "model": "the name by which the endpoint knows it",
        "question": "as text", "question_file": "or a text file that holds it",
        "temperature": "of the model's replies", "max_tokens": "of a reply; 0: as many as the endpoint allows",
        "timeout_seconds": "for one attempt", "retries": "attempts after the first one, for passing errors",
        "calls": "attempts that may be made in all",
        "key_variable": "the environment variable that holds the key; if it is empty, no key is sent",
    }

    def __init__(
        self, url: str, model: str, question: str = "", question_file: str = "", temperature: float = 1.0,
        max_tokens: int = 0, timeout_seconds: float = 120.0, retries: int = 4, calls: int = 200,
        key_variable: str = "OPENAI_API_KEY", wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`wait(seconds)` makes the pauses; UsageError naming a value that is impossible."""
        _check_range("temperature", temperature, 0, 5)
        _check_range("max_tokens", max_tokens, 0, 1 << 24)
        _check_range("timeout_seconds", timeout_seconds, 0.01, 86_400)
        _check_range("retries", retries, 0, 100)
        _check_range("calls", calls, 1, 1_000_000)
        if not model.strip():
            raise UsageError("task.model= is empty: name a model that the endpoint has")
        self._question = _read_question(question, question_file)
        self._key = _read_key(key_variable)
        self._url = _check_url(url, key_variable if self._key else "")
        self._settings: dict[str, Any] = {"model": model, "temperature": temperature}
        if max_tokens:
            self._settings["max_tokens"] = max_tokens
        self._timeout, self._retries, self._calls, self._wait = timeout_seconds, retries, calls, wait
        self._opener = _make_opener(self._url)
        self._counting = threading.Lock()
        self.calls_made = 0

    def first(self) -> str:
        """The model's answer."""
        return self._ask(ANSWER, {"Question": self._question})

    def critique(self, answer: str) -> str:
        """What the model finds wrong with it."""
        return self._ask(CRITIQUE, {"Question": self._question, "Answer": answer})

    def refine(self, answer: str, critique: str) -> str:
        """The model's next answer."""
        return self._ask(REFINE, {"Question": self._question, "Answer": answer, "Criticism": critique})

    def score(self, answer: str) -> float:
        """The model's judgement in [-100, 100]; asked again, `retries` times, if a reply holds none."""
        for _ in range(self._retries + 1):
            found = _SCORE.findall(self._ask(SCORE, {"Question": self._question, "Answer": answer}))
            score = float(found[-1]) if found else math.nan
            if LOWEST_SCORE <= score <= HIGHEST_SCORE:
                return score
        raise ValueError(f"no line `Score: NUMBER` with a number in [-100, 100] in {self._retries + 1} replies")

    # --- HTTP --------------------------------------------------------------------------------------------------------

    def _ask(self, instruction: str, parts: dict[str, str]) -> str:
        """The text of the model's reply; empty if it says nothing."""
        prompt = "\n\n".join([instruction, *(f"{name}:\n{text}" for name, text in parts.items())])
        body = json.dumps({**self._settings, "messages": [{"role": "user", "content": prompt}]}).encode()
        for attempt in range(self._retries + 1):
            self._count_call()
            try:
                return _text_of(self._post(body))
            except _PassingError as error:
                if attempt == self._retries:
                    raise ConnectionError(f"{error}, in {attempt + 1} attempts") from None
                self._wait(_pause(attempt, error.retry_after))
        raise AssertionError("unreachable")

    def _count_call(self) -> None:
        with self._counting:
            if self.calls_made >= self._calls:
                raise TaskEnded(f"the budget of {self._calls} calls is spent; task.calls= sets another one")
            self.calls_made += 1

    def _post(self, body: bytes) -> bytes:
        """One attempt; the body of the reply."""
        sent = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "shusaku"}
        if self._key:
            sent["Authorization"] = f"Bearer {self._key}"
        deadline = time.monotonic() + self._timeout
        request = urllib.request.Request(self._url, body, sent, method="POST")
        try:
            try:
                reply: Any = self._opener.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as error:  # a reply, too
                reply = error
            with reply:
                status, headers, answer = reply.status, reply.headers, _read(reply, deadline)
        except (OSError, http.client.HTTPException) as error:  # URLError and time-outs are OSErrors
            reason = getattr(error, "reason", error)
            raise _PassingError(f"{self._url}: {self._masked(str(reason) or type(reason).__name__)}") from None
        if status != 200:
            self._refuse(status, headers, answer)
        return answer

    def _refuse(self, status: int, headers: Message, body: bytes) -> NoReturn:
        text = self._masked(" ".join(body.decode("utf-8", "replace").split())[:300])
        shown = f"{self._url}: status {status}" + (f", {text}" if text else "")
        if status in PASSING or status >= 500:
            raise _PassingError(shown, headers.get("Retry-After", ""))
        if 300 <= status < 400:
            place = self._masked(headers.get("Location", "another address"))
            raise TaskEnded(f"{shown}: it sends us to {place}, and we do not follow; write that in task.url=")
        raise TaskEnded(shown)

    def _masked(self, text: str) -> str:
        return text.replace(self._key, MASK) if self._key else text


class _PassingError(Exception):
    """An attempt failed; another one may not."""

    def __init__(self, text: str, retry_after: str = "") -> None:
        super().__init__(text)
        self.retry_after = retry_after  # as the endpoint said


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key along, to wherever it points."""

    def redirect_request(self, *arguments: Any) -> None:
        """Follows none."""


def _make_opener(url: str) -> urllib.request.OpenerDirector:
    """Through the proxies of the environment, but never to this machine."""
    proxies = [urllib.request.ProxyHandler({})] if _is_here(urlsplit(url).hostname or "") else []
    return urllib.request.build_opener(_NoRedirect, *proxies)


def _read(reply: Any, deadline: float) -> bytes:
    """The whole body, if it comes in time: the socket's own time-out begins again with each byte."""
    parts, size = [], 0
    while part := reply.read1(CHUNK):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise _PassingError(f"a reply of more than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")
    return b"".join(parts)


def _text_of(body: bytes) -> str:
    try:
        text = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        raise _PassingError("a reply without choices[0].message.content") from None
    if text is not None and not isinstance(text, str):
        raise _PassingError(f"a reply whose content is {type(text).__name__}, not text")
    return (text or "").encode("utf-8", "replace").decode()  # JSON may escape half a character


def _pause(attempt: int, retry_after: str) -> float:
    """Seconds: what the endpoint asks for, else a random share of a bound that doubles (full jitter); bounded."""
    if retry_after.strip().isdecimal():
        return min(float(retry_after), LONGEST_PAUSE)
    return random.random() * min(FIRST_PAUSE * (1 << attempt), LONGEST_PAUSE)


# --- settings --------------------------------------------------------------------------------------------------------


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"task.{name}={value}: must be in [{low:g}, {high:g}]")


def _read_question(question: str, file: str) -> str:
    if bool(question.strip()) == bool(file):
        raise UsageError("either task.question= or task.question_file= must hold the question, and not both")
    if file:
        try:
            question = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or "no text in UTF-8"
            raise UsageError(f"task.question_file={file}: {problem}; name a text file that can be read") from None
    if not question.strip() or len(question) > MOST_QUESTION:  # that of a command line is shorter
        raise UsageError(f"task.question_file={file}: {len(question):,} characters; must be 1 to {MOST_QUESTION:,}, "
                         "and not only blanks")
    return question


def _read_key(variable: str) -> str:
    """The key from the environment; a setting would stand in the list of processes and in the shell's history."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the environment variable {variable} holds characters that no key has; set it again")
    return key


def _check_url(url: str, key_variable: str) -> str:
    """The address of chat completions; `key_variable`: by which a key would be sent there."""
    shape = "write task.url=http://HOST:PORT/v1 or https://HOST/v1"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"task.url={url}: {error}; {shape}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"task.url=...@{parts.hostname}: holds a name or password, which others could read; put the "
                         "key into the environment variable that task.key_variable= names")
    is_address = parts.scheme in ("http", "https") and parts.hostname and port != 0 and not parts.fragment
    if not is_address or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"task.url={url}: no address of an endpoint; {shape}")
    if key_variable and parts.scheme == "http" and not _is_here(parts.hostname or ""):
        raise UsageError(f"task.url={url}: the key of {key_variable} would cross the network unencrypted; use https, "
                         "or task.key_variable= (empty) to send none")
    path = parts.path.rstrip("/")
    path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
    return parts._replace(path=path).geturl()


def _is_here(host: str) -> bool:
    """Whether it is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
