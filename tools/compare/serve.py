#!/usr/bin/env python3
"""serve.py - `quern serve` as the package `openai` sees it, and under clients that behave badly.

Usage: serve.py --quern FILE [--seconds N] [--clients N] [--seed N]

A small model of random weights is made (llm.py's) with a tokenizer of bytes and a chat template. First the client of
`openai` asks for chats and completions, whole and by events, one and many at once, and gets errors as that package's
exceptions. Then N clients (64) ask for N seconds (300) as their seeds have it: some leave at any point, read slowly or
not at all, send too much, or what is no request. The server has to answer the others as always, its memory to stay, and
its exit, by SIGINT, to be clean: given a command with sanitizers (make SAN=1), to be without leaks. The last line is
`N passed, N failed`. Needs torch, transformers, gguf, openai.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import openai
import torch

import llm

TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'a:' if add_generation_prompt }}"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}},
          "required": ["name", "n"], "additionalProperties": False}


def write_model(path):
    """llm.py's Llama with GPT-2's characters for bytes as its tokens, and two more."""
    _, _, kind, changes = next(f for f in llm.FAMILIES if f[0] == "llama")
    model = llm.make(kind, changes | dict(vocab_size=258, eos_token_id=256, bos_token_id=257, pad_token_id=256))
    model.save_pretrained(path)
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    tokens = [chr(i if i in plain else next(other)) for i in range(256)] + ["<eos>", "<bos>"]
    special = [{"id": i, "content": tokens[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for i in (256, 257)]
    tokenizer = {"version": "1.0", "added_tokens": special, "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}}
    for name, value in (("tokenizer", tokenizer),
                        ("tokenizer_config", {"chat_template": TEMPLATE, "eos_token": "<eos>"})):
        with open(os.path.join(path, name + ".json"), "w") as f:
            json.dump(value, f)


class Server:
    def __init__(self, command, model, *options):
        environment = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=16:detect_leaks=1",
                           UBSAN_OPTIONS="halt_on_error=1")
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([command, "serve", model, "--port", "0", "--name", "small", *options],
                                        text=True, stdout=subprocess.PIPE, stderr=self.log, env=environment)
        line = self.process.stdout.readline()
        found = re.search(r"http://(.*):(\d+)$", line.strip())
        self.host, self.port = (found[1], int(found[2])) if found else ("", 0)

    def memory(self):
        """MiB that it has in memory."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024

    def listens_at(self):
        """The addresses that its sockets listen at, in hexadecimal as the system has them."""
        inodes = {m[1] for fd in os.listdir(f"/proc/{self.process.pid}/fd") for m in
                  [re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{self.process.pid}/fd/{fd}"))] if m}
        rows = [line.split() for kind in ("tcp", "tcp6") for line in open(f"/proc/{self.process.pid}/net/{kind}")][1:]
        return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}

    def get(self, path):
        with socket.create_connection((self.host, self.port), 60) as s:
            s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()

    def metric(self, name):
        return float(re.search(rf"^quern_{name} (\S+)$", self.get("/metrics"), re.M)[1])

    def end(self):
        """The exit's status, and what was said on standard error."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(120)
        self.log.seek(0)
        return status, self.log.read().decode(errors="replace")


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, fine, said=""):
        self.passed += bool(fine)
        self.failed += not fine
        print(f"{'ok  ' if fine else 'FAIL'} {name}{': ' if said else ''}{said}", flush=True)

    def raises(self, name, kind, call, text):
        try:
            call()
            self(name, False, "no error")
        except kind as e:
            self(name, text in str(e) or text == e.code, str(e)[:200])


# ---- the package's client -----------------------------------------------------------------------

def chats(check, client):
    parts = [{"type": "text", "text": "What is a tensor? ☃"}]
    asked = dict(model="small", messages=[{"role": "system", "content": "Be brief."},
                                          {"role": "user", "content": parts}],
                 max_tokens=40, seed=6, temperature=0.8)
    whole = client.chat.completions.create(**asked)
    text = whole.choices[0].message.content
    check("a chat", text and whole.object == "chat.completion" and whole.choices[0].message.role == "assistant")
    check("its usage", whole.usage.completion_tokens <= 40 and
          whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, repr(whole.usage)[:90])
    check("why it ended", whole.choices[0].finish_reason in ("length", "stop"))
    events = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    pieces = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
    check("the same by events", pieces == text, f"{len(events)} events")
    check("usage behind them", events[-1].usage and events[-1].usage.completion_tokens == whole.usage.completion_tokens)
    check("one id", len({e.id for e in events}) == 1)
    with client.chat.completions.stream(**asked) as stream:
        check("by the package's own stream", "".join(e.delta for e in stream if e.type == "content.delta") == text)
    answer = client.chat.completions.create(**(asked | dict(max_tokens=200)), response_format={
        "type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}})
    made = json.loads(answer.choices[0].message.content) if answer.choices[0].finish_reason == "stop" else None
    check("by a schema", made and set(made) == {"name", "n"}, str(made))


def completions(check, client):
    asked = dict(model="small", prompt="Once upon", max_tokens=30, seed=3)
    whole = client.completions.create(**asked)
    text = whole.choices[0].text
    check("a completion", text and whole.object == "text_completion")
    events = list(client.completions.create(**asked, stream=True))
    check("the same by events, too", "".join(e.choices[0].text for e in events if e.choices) == text)
    stop = text[len(text) // 2:][:2]
    cut = client.completions.create(**asked, stop=[stop])
    check("a text of stop ends it", cut.choices[0].text == text[:text.find(stop)] and
          cut.choices[0].finish_reason == "stop")
    ids = client.completions.create(**(asked | dict(prompt=list(b"Once upon"))))
    check("a prompt of tokens", ids.usage.prompt_tokens == 9)
    check("models", [m.id for m in client.models.list()] == ["small"])


def errors(check, client):
    messages = [{"role": "user", "content": "a"}]
    chat = lambda **o: lambda: client.chat.completions.create(**(dict(model="small", messages=messages) | o))
    bad = openai.BadRequestError
    check.raises("what is out of range", bad, chat(temperature=-1), "temperature")
    check.raises("two answers", bad, chat(n=2), "n")
    check.raises("tools", bad, chat(tools=[{"type": "function", "function": {"name": "f"}}]), "tools")
    check.raises("a prompt that is too long", bad, lambda: client.completions.create(model="small", prompt="a" * 5000),
                 "context_length_exceeded")
    check.raises("a schema that is none", bad, chat(response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "objekt"}}}), "#/type")
    check.raises("no such path", openai.NotFoundError, lambda: client.embeddings.create(model="small", input="a"),
                 "/v1/embeddings")
    check.raises("a body that is too large", openai.APIStatusError, chat(messages=[
        {"role": "user", "content": "a" * (5 << 20)}]), "413")


def many(check, server, client, seed):
    """Texts that are made beside others are those that each is alone."""
    asked = [dict(model="small", prompt=f"Number {i}", max_tokens=24, seed=seed + i, temperature=1) for i in range(16)]
    alone = [client.completions.create(**one).choices[0].text for one in asked]

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=str(client.base_url), api_key="none", max_retries=0) as other:
            return await asyncio.gather(*(other.completions.create(**one) for one in asked))
    together = [one.choices[0].text for one in asyncio.run(all_of_them())]
    check("sixteen at once", together == alone, f"{sum(a == b for a, b in zip(together, alone))} of 16")
    left = server.metric("requests_left_total")
    stream = client.completions.create(model="small", prompt="a", max_tokens=400, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    until = time.monotonic() + 20
    while server.metric("requests_running") and time.monotonic() < until:
        time.sleep(0.05)
    check("who leaves ends its answer", server.metric("requests_left_total") == left + 1)


# ---- clients that behave badly ------------------------------------------------------------------

class Client:
    """One of those, by its seed; what it saw is counted by name."""

    def __init__(self, server, seed, until, seen, wrong):
        self.server, self.random, self.until, self.seen, self.wrong = server, random.Random(seed), until, seen, wrong

    def request(self, body, path="/v1/chat/completions", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Host": "x", "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
        head |= {k.replace("_", "-"): v for k, v in headers.items()}
        lines = "".join(f"{k}: {v}\r\n" for k, v in head.items() if v is not None)
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body

    def chat(self, **more):
        words = " ".join(self.random.choice(["tensor", "loop", "ü", "a", "kernel"])
                         for _ in range(self.random.randrange(1, 12)))
        return dict(messages=[{"role": "user", "content": words}], max_tokens=self.random.randrange(1, 40),
                    seed=self.random.randrange(1000)) | more

    def connect(self):
        s = socket.create_connection((self.server.host, self.server.port), 90)
        if self.random.random() < 0.3:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        return s

    def leave(self, s):
        """Politely, or by a reset."""
        if self.random.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def answer(self, s):
        got = b"".join(iter(lambda: s.recv(1 << 16), b""))
        return int(got.split()[1]) if got.startswith(b"HTTP/1.1 ") else 0, got

    def expect(self, s, *statuses):
        status, got = self.answer(s)
        if status not in statuses:
            self.wrong.append(f"{status} in place of {statuses}: {got[-200:]!r}")

    def whole(self, s):
        s.sendall(self.request(self.chat()))
        self.expect(s, 200)

    def events(self, s):
        s.sendall(self.request(self.chat(stream=True)))
        status, got = self.answer(s)
        if status != 200 or b"data: [DONE]" not in got:
            self.wrong.append(f"events end with {got[-200:]!r}")

    def leaves_at_once(self, s):
        s.sendall(self.request(self.chat(stream=self.random.random() < 0.5, max_tokens=400, ignore_eos=True)))
        time.sleep(self.random.random() * 0.3)
        self.leave(s)

    def leaves_within(self, s):
        s.sendall(self.request(self.chat(stream=True, max_tokens=400, ignore_eos=True)))
        for _ in range(self.random.randrange(1, 20)):
            if not s.recv(200):
                break
        self.leave(s)

    def leaves_a_part(self, s):
        data = self.request(self.chat())
        s.sendall(data[:self.random.randrange(len(data))])
        time.sleep(self.random.random() * 2)
        self.leave(s)

    def reads_slowly(self, s):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.sendall(self.request(self.chat(stream=True, max_tokens=300, ignore_eos=True)))
        until = time.monotonic() + self.random.uniform(1, 10)
        while time.monotonic() < until and s.recv(64):
            time.sleep(0.02)
        self.leave(s)

    def sends_slowly(self, s):
        data = self.request(self.chat(max_tokens=3))
        for i in range(0, len(data), 16):
            s.sendall(data[i:i + 16])
            time.sleep(0.02)
        self.expect(s, 200)

    def too_large(self, s):
        s.sendall(self.request(b'{"messages": "' + b"a" * (5 << 20) + b'"}'))
        self.expect(s, 413)

    def claims_much(self, s):
        s.sendall(self.request(b"{}", Content_Length=self.random.choice([1 << 40, "9" * 30, -5, "many"])))
        self.expect(s, 400, 413, 0)

    def no_json(self, s):
        good = json.dumps(self.chat()).encode()
        bad = bytearray(good)
        for _ in range(self.random.randrange(1, 8)):
            bad[self.random.randrange(len(bad))] = self.random.randrange(256)
        s.sendall(self.request(bytes(bad)))
        self.expect(s, 400, 200)

    def wrong_types(self, s):
        name = self.random.choice(["messages", "temperature", "max_tokens", "stop", "seed", "response_format",
                                   "stream"])
        value = self.random.choice([{}, [], [[]], "x", -1e300, 1e300, None, True, {"type": 3}, [{"role": 1}]])
        s.sendall(self.request(self.chat(max_tokens=3) | {name: value}))
        self.expect(s, 200, 400)

    def deep(self, s):
        s.sendall(self.request(b"[" * 200000 if self.random.random() < 0.5 else b'{"a":' * 100000))
        self.expect(s, 400)

    def no_http(self, s):
        s.sendall(self.random.randbytes(self.random.randrange(1, 3000)) + b"\r\n\r\n")
        self.leave(s)
        self.answer(s) if self.random.random() < 0.5 else None

    def chunks_that_are_none(self, s):
        s.sendall(self.request(b"", Content_Length=None, Transfer_Encoding="chunked") +
                  self.random.choice([b"zz\r\n", b"fffffffffffffffff\r\n", b"5\r\nabc", b"-1\r\n\r\n"]))
        time.sleep(self.random.random())
        self.leave(s)

    def wide_head(self, s):
        more = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 500) for i in range(200))
        s.sendall(b"GET /health HTTP/1.1\r\n" + more + b"\r\n")
        self.answer(s)

    def one_behind_the_other(self, s):
        n = self.random.randrange(2, 5)
        s.sendall(self.request(self.chat(max_tokens=2), Connection=None) * n + b"GET /health HTTP/1.0\r\n\r\n")
        _, got = self.answer(s)
        if got.count(b"HTTP/1.") != n + 1:
            self.wrong.append(f"{got.count(b'HTTP/1.')} answers to {n + 1} requests")

    def by_rules(self, s):
        rules = self.random.choice([
            ({"grammar": 'root ::= "a"{1,5}'}, 200), ({"grammar": "root ::= root"}, 400), ({"grammar": "x"}, 400),
            ({"grammar": "root ::= " + "(" * 70 + "a"}, 400), ({"response_format": {"type": "json_object"}}, 200),
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}}, 400)])
        s.sendall(self.request(self.chat() | rules[0]))
        self.expect(s, rules[1])

    def looks(self, s):
        s.sendall(b"GET %s HTTP/1.0\r\n\r\n" % self.random.choice([b"/metrics", b"/health", b"/v1/models"]))
        self.expect(s, 200)

    WAYS = [(whole, 6), (events, 6), (leaves_at_once, 4), (leaves_within, 4), (leaves_a_part, 3), (reads_slowly, 2),
            (sends_slowly, 1), (too_large, 1), (claims_much, 1), (no_json, 4), (wrong_types, 4), (deep, 1),
            (no_http, 3), (chunks_that_are_none, 1), (wide_head, 1), (one_behind_the_other, 2), (by_rules, 3),
            (looks, 3)]

    def run(self):
        ways, weights = zip(*self.WAYS)
        while time.monotonic() < self.until:
            way = self.random.choices(ways, weights)[0]
            try:
                with self.connect() as s:
                    way(self, s)
                self.seen[way.__name__] += 1
            except (ConnectionError, BrokenPipeError):
                self.seen[way.__name__ + ", cut"] += 1  # as of what is no request
            except OSError as e:
                self.wrong.append(f"{way.__name__}: {e!r}")


def storm(check, server, o):
    seen, wrong = collections.Counter(), []
    until = time.monotonic() + o.seconds
    clients = [threading.Thread(target=Client(server, o.seed * 1000 + i, until, seen, wrong).run)
               for i in range(o.clients)]
    for c in clients:
        c.start()
    memory = [(0, server.memory())]
    while time.monotonic() < until and server.process.poll() is None:
        time.sleep(min(10, max(0.1, until - time.monotonic())))
        memory.append((o.seconds - (until - time.monotonic()), server.memory()))
    for c in clients:
        c.join()
    check("it lives", server.process.poll() is None)
    calm = time.monotonic() + 60
    while (server.metric("requests_running") or server.metric("exchanges_open") > 1) and time.monotonic() < calm:
        time.sleep(0.5)
    memory.append((o.seconds, server.memory()))
    check("nothing is left behind", not server.metric("requests_running") and not server.metric("requests_waiting"))
    check("answers are what they should be", not wrong, "; ".join(map(str, wrong[:5])))
    print("    " + ", ".join(f"{n} {name}" for name, n in sorted(seen.items())))
    print("    MiB: " + ", ".join(f"{m:.0f} at {t:.0f} s" for t, m in memory[::max(1, len(memory) // 12)]))
    third = [m for t, m in memory if t >= o.seconds / 3]
    check("its memory stays", memory[-1][1] < third[0] * 1.1 + 16,
          f"{memory[0][1]:.0f} MiB at the start, {third[0]:.0f} after a third, {memory[-1][1]:.0f} in the end, "
          f"{max(m for _, m in memory):.0f} at most")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quern", required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    torch.set_num_threads(1)
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder)
        server = Server(os.path.abspath(o.quern), folder, "--context", "512", "--threads", "2")
        check("it listens on this machine alone", server.listens_at() == {"0100007F"}, str(server.listens_at()))
        client = openai.OpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key="none", max_retries=0)
        chats(check, client)
        completions(check, client)
        errors(check, client)
        many(check, server, client, o.seed)
        client.close()
        storm(check, server, o)
        with openai.OpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key="none") as client:
            completions(check, client)
        status, said = server.end()
        check("it ends cleanly", status == 0 and not said, f"status {status} {said[-3000:]}")
    print(f"{check.passed} passed, {check.failed} failed")
    return 0 if not check.failed else 1


if __name__ == "__main__":
    sys.exit(main())
