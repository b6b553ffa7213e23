"""The endpoint task against a local server that follows a script."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from chat_server import ChatServer

from shusaku.actors.refine import TaskEnded, TreeSearch
from shusaku.actors.refine_tasks.endpoint import LONGEST_PAUSE, Endpoint
from shusaku.common.errors import UsageError

KEY = "sk-not-a-real-key"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens there: this machine is reached without it


@pytest.fixture
def server():
    with ChatServer() as chat:
        yield chat


@pytest.fixture
def make(server):
    """An endpoint task for the server; pauses are noted in `pauses` and not made."""

    def made(**settings):
        pauses = []
        task = Endpoint(**{"url": server.url, "model": "small", "question": "2 + 2?", "wait": pauses.append} | settings)
        return task, pauses

    return made


def test_a_search_asks_answers_criticises_refines_and_scores(server, make):
    scores = {"five": 10, "I do not know.": -100, "four": 100}

    def model(prompt):
        if "Score: NUMBER" in prompt:
            answer = prompt.rpartition("Answer:\n")[2]
            return f"As score 7 would say.\n**Score:** {scores[answer]}"
        if "Criticism:\n" in prompt:
            assert "Criticism:\nit is even" in prompt
            return "four"
        return "it is even" if "Answer:\n" in prompt else "five"

    server.script = model
    task, _ = make(max_tokens=50, temperature=0.3)
    search = TreeSearch(task, 8)
    search.run()
    assert (search.ended_by, search.best.answer, search.failures) == ("solved", "four", 0)
    assert task.calls_made == len(server.requests) == 7
    for request in server.requests:
        assert request.path == "/v1/chat/completions"
        assert {key: request.body[key] for key in ("model", "temperature", "max_tokens")} == {
            "model": "small", "temperature": 0.3, "max_tokens": 50}
        assert [message["role"] for message in request.body["messages"]] == ["user"]
        assert "Question:\n2 + 2?" in request.body["messages"][0]["content"]
        assert "Authorization" not in request.headers


def test_max_tokens_is_sent_only_if_it_is_set(server, make):
    make()[0].first()
    assert set(server.requests[0].body) == {"model", "temperature", "messages"}


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"])
def test_the_path_is_added_once(server, make, path):
    make(url=server.url.removesuffix("/v1") + path)[0].first()
    assert server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(("reply", "score"), [
    ("Score: 40", 40), ("score = -12.5", -12.5), ("Score: 30, no:\nScore: **-70**", -70), ("**Score:** 100", 100),
    ("SCORE - 15", 15), ("Score: 0.", 0),
])
def test_the_last_score_of_a_reply_counts(server, make, reply, score):
    server.script = lambda prompt: reply
    assert make()[0].score("x") == score


def test_a_reply_without_a_score_is_asked_for_again(server, make):
    replies = iter(["good", "Score: many", "Score: 101", "Score: 5", *["none"] * 5])
    server.script = lambda prompt: next(replies)
    task, pauses = make(retries=4)
    assert task.score("x") == 5
    assert pauses == []
    with pytest.raises(ValueError, match="no line `Score: NUMBER`"):
        task.score("x")
    assert task.calls_made == 9


# --- what goes wrong on the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_passing_error_is_tried_again_with_longer_and_longer_pauses(server, make, status):
    server.statuses = [status] * 4
    task, pauses = make()
    assert task.first() == "reply"
    assert task.calls_made == len(server.requests) == 5
    assert len(pauses) == 4
    assert all(0 <= pause <= 0.5 * 2**attempt for attempt, pause in enumerate(pauses))


def test_pauses_are_random_and_their_bound_doubles(server, make):
    server.statuses = [500] * 9_000
    task, pauses = make(retries=9, calls=2_000)
    for _ in range(60):
        with pytest.raises(ConnectionError):
            task.first()
    by_attempt = [pauses[attempt::9] for attempt in range(9)]
    bounds = [min(0.5 * 2**attempt, LONGEST_PAUSE) for attempt in range(9)]
    for found, bound in zip(by_attempt, bounds, strict=True):
        assert 0 <= min(found) < 0.3 * bound < 0.7 * bound < max(found) <= bound


@pytest.mark.parametrize(("asked", "low", "high"), [
    ("7", 7, 7), ("100000", LONGEST_PAUSE, LONGEST_PAUSE), ("soon", 0, 0.5), ("-4", 0, 0.5), ("1e9", 0, 0.5),
])
def test_the_endpoint_may_say_how_long_to_wait(server, make, asked, low, high):
    server.statuses, server.reply_headers = [429], {"Retry-After": asked}
    task, pauses = make()
    task.first()
    assert low <= pauses[0] <= high


def test_after_the_last_attempt_the_error_names_status_and_text(server, make):
    server.statuses = [503] * 3
    task, pauses = make(retries=2)
    with pytest.raises(ConnectionError, match=r'status 503, \{"error": "scripted"\}, in 3 attempts'):
        task.first()
    assert len(pauses) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_for_good_ends_the_search(server, make, status):
    server.statuses = [status] * 9
    task, pauses = make()
    search = TreeSearch(task, 8)
    search.run()
    assert search.ended_by.startswith(f"task: {server.url}/chat/completions: status {status}")
    assert (search.best, search.failures, len(server.requests), pauses) == (None, 0, 1, [])


def test_a_redirect_is_not_followed_and_the_key_stays_here(server, make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer() as other:
        server.statuses, server.reply_headers = [307], {"Location": f"{other.url}/chat/completions"}
        with pytest.raises(TaskEnded, match=r"status 307.* we do not follow; write that in task.url="):
            make()[0].first()
        assert other.requests == []


def test_no_connection_is_a_passing_error(server, make):
    task, pauses = make(url="http://127.0.0.1:1/v1", retries=3)
    with pytest.raises(ConnectionError, match=r"127.0.0.1:1/.*refused, in 4 attempts"):
        task.first()
    assert len(pauses) == 3


def test_an_endpoint_that_says_nothing_is_left_after_the_time_out(server, make):
    release = threading.Event()
    server.script = lambda prompt: str(release.wait(30))
    task, _ = make(timeout_seconds=0.3, retries=1)
    began = time.monotonic()
    try:
        with pytest.raises(ConnectionError, match="timed out, in 2 attempts"):
            task.first()
        assert 0.6 <= time.monotonic() - began < 10
    finally:
        release.set()


@contextmanager
def raw_server(write):
    """Answers each request by `write(file)`, bytes as they are."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            write(self.wfile)
            self.close_connection = True

        def log_message(self, *arguments):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def test_an_endpoint_that_drips_bytes_is_left_after_the_time_out(make):
    def drip(file):
        file.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with suppress(OSError):  # once the client has left
            for _ in range(200):
                file.write(b" ")
                file.flush()
                time.sleep(0.05)

    with raw_server(drip) as url:
        began = time.monotonic()
        with pytest.raises(ConnectionError, match="timed out"):
            make(url=url, timeout_seconds=0.4, retries=0)[0].first()
        assert time.monotonic() - began < 8


OK = b"HTTP/1.1 200 OK\r\n\r\n"
NO_REPLY = {
    "nothing": b"", "no HTTP": b"hello\r\n\r\n", "half a line": b"HTTP/1.1 2",
    "no JSON": OK + b"<html>", "no map": OK + b"[]",
    "no choice": OK + b'{"choices": []}', "no message": OK + b'{"choices": [{"text": "x"}]}',
    "a list as content": OK + b'{"choices": [{"message": {"content": ["x"]}}]}',
    "cut short": b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"choices": [', "no text": OK + b"\xff\xfe\x00",
    "too long": OK + b" " * (9 << 20),
}


@pytest.mark.parametrize("reply", NO_REPLY)
def test_what_is_no_reply_is_a_passing_error(make, reply):
    def write(file):
        with suppress(OSError):  # the client may have read enough
            file.write(NO_REPLY[reply])

    with raw_server(write) as url:
        task, pauses = make(url=url, retries=1)
        with pytest.raises(ConnectionError, match="in 2 attempts") as error:
            task.first()
    assert len(pauses) == 1
    assert len(str(error.value)) < 500


def test_half_a_character_in_a_reply_is_replaced(make):
    body = OK + b'{"choices": [{"message": {"content": "a\\ud800b"}}]}'
    with raw_server(lambda file: file.write(body)) as url:
        assert make(url=url)[0].first() == "a?b"


def test_a_reply_without_words_is_an_empty_answer(make):
    body = OK + json.dumps({"choices": [{"message": {"content": None}}]}).encode()
    with raw_server(lambda file: file.write(body)) as url:
        task, _ = make(url=url)
        assert task.first() == ""
        search = TreeSearch(task, 3)
        search.run()
    assert search.first_failure == "first answered nothing"


# --- the budget and the key ------------------------------------------------------------------------------------------


def test_the_budget_counts_every_attempt_and_ends_the_search_with_the_best_answer(server, make):
    server.statuses = [500, 500]
    server.script = lambda prompt: "Score: 12" if "Score: NUMBER" in prompt else "words"
    task, _ = make(calls=9)
    search = TreeSearch(task, 100)
    search.run()
    assert search.ended_by == "task: the budget of 9 calls is spent; task.calls= sets another one"
    assert len(server.requests) == task.calls_made == 9
    assert (search.best.answer, search.best.worth, search.failures) == ("words", 12, 0)


def test_several_workers_share_the_budget(server, make):
    server.script = lambda prompt: "Score: 12" if "Score: NUMBER" in prompt else "words"
    task, _ = make(calls=41)
    search = TreeSearch(task, 1000, workers=8)
    search.run()
    assert len(server.requests) == task.calls_made == 41
    assert search.ended_by.startswith("task: the budget")


def test_the_key_comes_from_the_environment_alone(server, make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "other")
    for settings, sent in (({}, f"Bearer {KEY}"), ({"key_variable": "OTHER_KEY"}, "Bearer other"),
                           ({"key_variable": ""}, None), ({"key_variable": "NOT_SET"}, None)):
        make(**settings)[0].first()
        assert server.requests[-1].headers.get("Authorization") == sent


def test_an_endpoint_that_repeats_the_key_does_not_get_it_printed(server, make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.statuses, server.error_text = [401], f"Incorrect API key provided: {KEY}"
    with pytest.raises(TaskEnded, match=r"Incorrect API key provided: \*\*\*") as error:
        make()[0].first()
    assert KEY not in str(error.value)


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00b"[:1] + "\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(make, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(UsageError, match="OPENAI_API_KEY holds characters") as error:
        make()
    assert key not in str(error.value)


def test_a_key_does_not_cross_the_network_unencrypted(make, monkeypatch):
    make(url="http://192.0.2.1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for url in ("http://192.0.2.1/v1", "http://example.org/v1", "http://localhost.example.org/v1"):
        with pytest.raises(UsageError, match=r"unencrypted; use https, or task\.key_variable="):
            make(url=url)
        make(url=url, key_variable="")
    for url in ("https://example.org/v1", "http://localhost:1/v1", "http://127.0.0.2/v1", "http://[::1]:8/v1"):
        make(url=url)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "text"), [
    ({"url": "127.0.0.1:8000/v1"}, "no address of an endpoint"),
    ({"url": "ftp://127.0.0.1/v1"}, "no address of an endpoint"),
    ({"url": "file:///etc/passwd"}, "no address of an endpoint"),
    ({"url": "http://"}, "no address of an endpoint"),
    ({"url": "http://127.0.0.1:0/v1"}, "no address of an endpoint"),
    ({"url": "http://127.0.0.1:99999/v1"}, "Port out of range"),
    ({"url": "http://127.0.0.1/v 1"}, "no address of an endpoint"),
    ({"url": "http://127.0.0.1/v1#x"}, "no address of an endpoint"),
    ({"url": "http://me:secret@127.0.0.1/v1"}, "holds a name or password"),
    ({"model": " "}, "task.model= is empty"),
    ({"question": ""}, "either task.question= or task.question_file="),
    ({"question_file": "x"}, "and not both"),
    ({"question": "", "question_file": "not/there"}, "No such file"),
    ({"temperature": -0.1}, "task.temperature=-0.1: must be in"),
    ({"max_tokens": -1}, "task.max_tokens=-1: must be in"),
    ({"timeout_seconds": 0.0}, "task.timeout_seconds=0.0: must be in"),
    ({"retries": -1}, "task.retries=-1: must be in"),
    ({"calls": 0}, "task.calls=0: must be in"),
])
def test_an_impossible_setting_is_named(make, settings, text):
    with pytest.raises(UsageError, match=text) as error:
        make(**settings)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("data", "text"), [(b" \n", "3 characters"), (b"\xff\xfe", "no text in UTF-8")])
def test_a_file_without_a_question_is_refused(make, tmp_path, data, text):
    file = tmp_path / "question.txt"
    file.write_bytes(data + b" " * (data == b" \n"))
    with pytest.raises(UsageError, match=text):
        make(question="", question_file=str(file))


def test_the_question_may_lie_in_a_file(server, make, tmp_path):
    file = tmp_path / "question.txt"
    file.write_text("How many\nqueens?\n", encoding="utf-8")
    make(question="", question_file=str(file))[0].first()
    assert "How many\nqueens?" in server.requests[0].body["messages"][0]["content"]
