"""Language models: beside plain loops and the command, texts in pieces, and what ends them."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import quern as qn

from . import tiny_llm as tiny

COMMAND = Path(__file__).resolve().parents[2] / "build" / "quern"


def random_ids(n, seed=1):
    r = random.Random(seed)
    return [r.randrange(256) for _ in range(n)]


def log_loss(row, i):
    top = max(row)
    return math.log(sum(math.exp(v - top) for v in row)) + top - row[i]


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.weights = tiny.make()
        cls.path = os.path.join(cls.folder.name, "tiny.gguf")
        cls.parts = os.path.join(cls.folder.name, "tiny")
        tiny.gguf(cls.path, cls.weights)
        tiny.folder(cls.parts, cls.weights)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def near(self, got, want, within=2e-5):
        top = max(map(abs, want))
        self.assertLess(max(abs(a - b) for a, b in zip(got, want, strict=True)), within * top)

    # Values.

    def test_logits_are_those_of_plain_loops(self):
        ids = random_ids(13)
        for path, halves in ((self.path, False), (Path(self.parts), True)):
            want = tiny.logits(self.weights, ids, halves)
            for chunk in (0, 2, 5):
                with qn.llm.open(path, chunk=chunk) as m:
                    for n in (1, 5, 3, 13):  # of what is in the cache, too
                        x = m.logits(ids[:n])
                        self.assertEqual((x.shape, x.dtype), ((tiny.VOCABULARY,), qn.float32))
                        self.near(x.tolist(), want[n - 1])
                        self.assertEqual(m.cache, ids[:n])
                    self.near(m.logits(qn.tensor(ids)).tolist(), want[-1])
                    m.rewind(3)
                    self.assertEqual(m.cache, ids[:3])

    def test_half_a_cache_is_near(self):
        ids = random_ids(9)
        with qn.llm.open(self.path, half=True) as m:
            self.near(m.logits(ids).tolist(), tiny.logits(self.weights, ids)[-1], 2e-2)

    def test_caches_of_few_bits_are_near(self):
        ids = random_ids(9)
        exact = tiny.logits(self.weights, ids)[-1]
        for cache, least, most in (("f32", 0, 1e-9), ("f16", 1e-10, 1e-4), ("q8_0", 1e-8, 1e-3), ("q4_0", 1e-4, 0.3)):
            with qn.llm.open(self.path, cache=cache) as m:
                got = m.logits(ids).tolist()
            off = sum((a - b) ** 2 for a, b in zip(got, exact)) / sum(b * b for b in exact)
            self.assertTrue(least <= off < most, f"{cache}: {off}")
        with self.assertRaisesRegex(ValueError, "f32, f16, q8_0, q4_0, not 'q5'"):
            qn.llm.open(self.path, cache="q5")

    def test_adapters_are_added(self):
        ids, r = random_ids(9), random.Random(2)
        a = [[r.uniform(-1, 1) for _ in range(tiny.WIDTH)] for _ in range(2)]
        b = [[r.uniform(-1, 1) for _ in range(2)] for _ in range(tiny.INNER)]
        path = os.path.join(self.folder.name, "lora")
        os.makedirs(path)
        base = "base_model.model.model.layers.1.mlp.up_proj.lora_"
        qn.save(os.path.join(path, "adapter_model.safetensors"),
                {base + "A.weight": qn.tensor(a), base + "B.weight": qn.tensor(b)})
        with open(os.path.join(path, "adapter_config.json"), "w") as f:
            json.dump({"peft_type": "LORA", "lora_alpha": 3}, f)
        for lora, scale in ((path, 1.5), ([(Path(path), 0.5), path], 2.25)):
            changed = dict(self.weights)
            changed["blk.1.ffn_up"] = [[w + scale * sum(b[i][k] * a[k][j] for k in range(2)) for j, w in enumerate(row)]
                                       for i, row in enumerate(self.weights["blk.1.ffn_up"])]
            with qn.llm.open(self.path, lora=lora) as m:
                self.near(m.logits(ids).tolist(), tiny.logits(changed, ids)[-1])
        with self.assertRaisesRegex(ValueError, "lora: 0 is no scale"):
            qn.llm.open(self.path, lora=[(path, 0)])
        with self.assertRaisesRegex(Exception, "nowhere"):
            qn.llm.open(self.path, lora="/nowhere")

    def test_losses_and_embeddings(self):
        ids = random_ids(12)
        rows = tiny.logits(self.weights, ids)
        want = sum(log_loss(row, i) for row, i in zip(rows, ids[1:]))
        states = tiny.hidden(self.weights, ids)
        with qn.llm.open(self.path) as m:
            self.assertAlmostEqual(m.score(ids), want, delta=1e-3)
            self.assertAlmostEqual(m.perplexity(ids), math.exp(want / 11), delta=1e-3 * math.exp(want / 11))
            self.assertEqual(m.score("abab"), m.score(m.tokenizer.encode("abab")))
            self.near(m.embed(ids).tolist(), [sum(column) / 12 for column in zip(*states)])
            self.assertEqual(m.score([5]), 0)
            with self.assertRaisesRegex(ValueError, "perplexity: of 1 tokens"):
                m.perplexity([5])

    def test_texts_longer_than_the_cache_are_scored_in_parts(self):
        ids = random_ids(20)
        want = 0.0
        for at in range(0, 19, 8):
            part = ids[at:at + 9]
            want += sum(log_loss(row, i) for row, i in zip(tiny.logits(self.weights, part), part[1:]))
        with qn.llm.open(self.path, context=8, chunk=4) as m:
            self.assertAlmostEqual(m.score(ids), want, delta=1e-3)

    def test_what_it_is(self):
        with qn.llm.open(self.path, context=40) as m:
            self.assertEqual((m.architecture, m.vocabulary, m.width, m.layers), ("llama", 260, 32, 2))
            self.assertEqual((m.heads, m.kv_heads, m.head, m.context, m.trained), (4, 2, 8, 40, 128))
            count = sum(len(v) * (len(v[0]) if isinstance(v[0], list) else 1) for v in self.weights.values())
            self.assertEqual((m.parameters, m.nbytes, m.has_chat), (count, 4 * count, True))
            self.assertTrue(m.ends(256) and not m.ends(1) and not m.ends(-1) and not m.ends(1 << 40))
            self.assertIn("llama of 35,232 parameters", repr(m))

    # Texts.

    def test_a_text_is_the_command_s(self):
        if not COMMAND.exists():
            self.skipTest("build/quern is not built")
        with qn.llm.open(self.path) as m:
            for options, words in (({}, []), ({"temperature": 0.9, "seed": 5, "top_k": 30, "repeat_penalty": 1.3},
                                              ["--seed", "5", "--top", "30", "--repeat", "1.3"])):
                t = str(options.get("temperature", 0))
                said = subprocess.run([COMMAND, "generate", "--model", self.path, "--prompt", "Once", "--length", "60",
                                       "--temperature", t, *words], capture_output=True, check=True).stdout
                text = m.generate("Once", max_tokens=60, **options)
                self.assertEqual(("Once" + text + "\n").encode(), said)

    def test_pieces_are_the_text_of_the_tokens(self):
        with qn.llm.open(self.path) as m:
            for seed in range(8):
                options = {"temperature": 1.0, "seed": seed, "max_tokens": 40, "ignore_end": True}
                ids = list(m.tokens("ab", **options))
                self.assertEqual(len(ids), 40)
                pieces = list(m.stream("ab", **options))
                self.assertEqual("".join(pieces), m.tokenizer.decode(ids))
                self.assertTrue(all(pieces) and len(pieces) > 10)

    def test_streams_by_turns_do_not_mix(self):
        with qn.llm.open(self.path) as m:
            a, b = m.generate("Once", max_tokens=20), m.generate("Twice upon", max_tokens=20)
            one, two, said = m.stream("Once", max_tokens=20), m.stream("Twice upon", max_tokens=20), ["", ""]
            while True:
                pieces = next(one, ""), next(two, "")
                if pieces == ("", ""):
                    break
                said = [s + p for s, p in zip(said, pieces)]
                m.score([1, 2, 3])
            self.assertEqual(said, [a, b])
            next(m.stream("Once"))  # and no more of it
            self.assertEqual(m.generate("Twice upon", max_tokens=20), b)

    def test_threads_share_a_model(self):
        with qn.llm.open(self.path) as m:
            prompts = ["a", "bcd", "Once upon", "the end"]
            want, got = [m.generate(p, max_tokens=25) for p in prompts], {}
            threads = [threading.Thread(target=lambda p=p: got.update({p: m.generate(p, max_tokens=25)}))
                       for p in prompts]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual([got[p] for p in prompts], want)

    def test_choices(self):
        with qn.llm.open(self.path) as m:
            def say(**options):
                return m.generate("Once", **{"max_tokens": 30, **options})
            likeliest = say()
            self.assertEqual(say(temperature=2.0, top_k=1, seed=9), likeliest)
            self.assertEqual(say(temperature=2.0, min_p=1.0, seed=9), likeliest)
            self.assertEqual(say(temperature=2.0, top_p=1e-9, seed=9), likeliest)
            self.assertEqual(say(temperature=1.0, seed=4), say(temperature=1.0, seed=4))
            self.assertEqual(len({say(temperature=1.0, seed=s) for s in range(6)}), 6)
            ids = list(m.tokens("Once", max_tokens=60, repeat_penalty=100.0, presence_penalty=50.0,
                                penalty_tokens=1000))
            self.assertEqual(len(set(ids)), len(ids))
            for bad in ({"temperature": -1}, {"top_p": 2.0}, {"stop": ""}, {"stop": [1]}, {"max_tokens": -1},
                        {"top_k": -1}):
                with self.assertRaises(ValueError, msg=bad):
                    say(**bad)
            for bad in ({"heat": 1}, {"top_k": 1.5}, {"temperature": "hot"}):
                with self.assertRaises((TypeError, ValueError), msg=bad):
                    say(**bad)

    def test_a_text_that_ends_it_is_not_given_out(self):
        with qn.llm.open(self.path) as m:
            whole = m.generate("Once", max_tokens=30)
            for stop in (whole[4:7], [whole[9:14], "not there"], whole[0], whole[5:7] + "no"):
                stops = [stop] if isinstance(stop, str) else stop
                want = min((whole.find(s) for s in stops if s in whole), default=len(whole))
                pieces = list(m.stream("Once", max_tokens=30, stop=stop))
                self.assertEqual("".join(pieces), whole[:want])
                self.assertTrue(all(pieces))

    def test_texts_by_a_grammar_or_a_schema(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
                  "required": ["a", "b"], "additionalProperties": False}
        with qn.llm.open(self.path) as m:
            for seed in range(8):
                how = {"temperature": 2.0, "seed": seed, "max_tokens": 100}
                text = m.generate("abc", schema=schema, **how)
                self.assertEqual(sorted(json.loads(text)), ["a", "b"])
                self.assertEqual(m.generate("abc", schema=json.dumps(schema), **how), text)
                ids = list(m.tokens("abc", schema=schema, **how))
                self.assertEqual(m.tokenizer.decode(ids), text)
                pieces = list(m.stream("abc", grammar='root ::= "<" [a-f\u00e9]{5} ">"', **how))
                self.assertRegex("".join(pieces), "^<[a-f\u00e9]{5}>$")
                self.assertGreater(len(pieces), 3)
            with self.assertRaisesRegex(ValueError, "line 1, column 10: there is no rule x"):
                m.generate("abc", grammar="root ::= x")
            with self.assertRaisesRegex(TypeError, "grammar is a text in GBNF"):
                m.generate("abc", grammar=3)

    def test_the_model_s_own_end(self):
        with qn.llm.open(self.path) as m:
            ids = list(m.tokens("Once", max_tokens=12))
        path = os.path.join(self.folder.name, "ends.gguf")
        tiny.gguf(path, self.weights, end=ids[5])
        at = ids.index(ids[5])
        with qn.llm.open(path) as m:
            self.assertEqual(list(m.tokens("Once", max_tokens=12)), ids[:at])
            self.assertEqual(m.generate("Once", max_tokens=12), m.tokenizer.decode(ids[:at]))
            self.assertEqual(list(m.tokens("Once", max_tokens=12, ignore_end=True)), ids)

    def test_the_cache_may_become_full(self):
        with qn.llm.open(self.path, context=16, chunk=4) as m:
            self.assertEqual(len(list(m.tokens(random_ids(10), ignore_end=True))), 7)
            self.assertEqual(len(list(m.tokens(random_ids(16), ignore_end=True))), 1)
            self.assertEqual(list(m.tokens([1], max_tokens=0)), [])
            with self.assertRaisesRegex(qn.RangeError, "17 tokens, a context of 16"):
                m.generate(random_ids(17))

    def test_conversations(self):
        said = [{"role": "system", "content": "Ä"}, {"role": "user", "content": "ab"}]
        for path in (self.path, self.parts):
            with qn.llm.open(path) as m:
                ids = m.encode_chat(said)
                self.assertEqual(m.tokenizer.decode(ids), "system:Ä;user:ab;a:")
                self.assertEqual(m.chat(said, max_tokens=9), m.generate(ids, max_tokens=9))
                self.assertEqual("".join(m.stream_chat("hello", max_tokens=9)),
                                 m.generate("user:hello;a:", max_tokens=9))

    def test_models_without_a_tokenizer(self):
        path = os.path.join(self.folder.name, "bare.gguf")
        tiny.gguf(path, self.weights, tokenizer=False)
        with qn.llm.open(path) as m, qn.llm.open(self.path) as other:
            self.assertEqual(list(m.tokens([1, 2], max_tokens=9)), list(other.tokens([1, 2], max_tokens=9)))
            self.assertFalse(m.has_chat)
            for wants in (lambda: m.tokenizer, lambda: m.generate("a"), lambda: m.generate([1]), lambda: m.chat("a")):
                with self.assertRaises(ValueError):
                    wants()

    # Tokenizers and templates.

    def test_tokenizers(self):
        with qn.llm.open(self.path) as m:
            for t in (m.tokenizer, qn.llm.tokenizer(self.parts), qn.llm.tokenizer(self.parts + "/tokenizer.json")):
                self.assertEqual(t.encode("abc"), [257, 99])
                self.assertEqual(t.encode("<|end|>"), [258])
                self.assertEqual(len(t.encode("<|end|>", plain=True)), 7)
                self.assertEqual(t.decode(t.encode("naïve Ω\n")), "naïve Ω\n")
                self.assertEqual((t.decode([97, 258]), t.decode([97, 258], skip_special=False)), ("a", "a<|end|>"))
                self.assertEqual((t.id("zz"), t.token(259), t.id("none"), t.token(999)), (259, "zz", None, None))
                self.assertEqual((t.is_special(258), t.is_special(259), len(t)), (True, False, 260))
                with self.assertRaises(qn.RangeError):
                    t.decode([260])
                with self.assertRaises(TypeError):
                    t.decode("ab")
                with self.assertRaises(TypeError):
                    t.encode(5)
            own = m.tokenizer
        with self.assertRaisesRegex(ValueError, "closed"):
            own.encode("a")

    def test_templates(self):
        t = qn.llm.Template("{% for x in names %}<{{ x | upper }}>{% endfor %}{{ more }}")
        self.assertEqual(t.render(names=["a", "ä"], more=None), "<A><Ä>None")
        with self.assertRaises(ValueError):
            qn.llm.Template("{% for x in %}")
        with self.assertRaisesRegex(ValueError, "no such"):
            qn.llm.Template("{{ raise_exception('no such') }}").render()

    # Threads, signals, errors.

    def test_it_computes_without_the_interpreter_s_lock(self):
        gate, marks, was = threading.Event(), [], sys.getswitchinterval()
        other = threading.Thread(target=lambda: (gate.wait(), marks.append(1)))
        with qn.llm.open(self.path) as m:
            m.score(random_ids(100))
            other.start()
            sys.setswitchinterval(100)  # it is let go, not taken
            try:
                gate.set()
                for _ in range(500):  # the other one may be slow to wake up
                    m.score(random_ids(120))
                    if marks:
                        break
                seen = len(marks)
            finally:
                sys.setswitchinterval(was)
            other.join()
        self.assertEqual(seen, 1)

    def test_a_signal_stops_it(self):
        class Enough(Exception):
            pass

        def enough(*_):
            raise Enough

        with qn.llm.open(self.path, context=1 << 16, chunk=8) as m:
            m.generate(random_ids(20), max_tokens=3)
            m.score(random_ids(20))
            for work in (lambda: m.generate("Once", ignore_end=True), lambda: list(m.tokens("Once", ignore_end=True)),
                         lambda: m.logits(random_ids(1 << 16))):
                before = signal.signal(signal.SIGALRM, enough)
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                begun = time.monotonic()
                try:
                    with self.assertRaises(Enough):
                        work()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before)
                self.assertLess(time.monotonic() - begun, 5)
            text = m.generate("Once", max_tokens=20)  # and it is as before
        with qn.llm.open(self.path) as m:
            self.assertEqual(m.generate("Once", max_tokens=20), text)

    def test_what_cannot_be_opened(self):
        with self.assertRaises(OSError):
            qn.llm.open(os.path.join(self.folder.name, "nothing.gguf"))
        path = os.path.join(self.folder.name, "bad.gguf")
        tiny.gguf(path, self.weights, architecture="lama")
        with self.assertRaisesRegex(ValueError, "lama"):
            qn.llm.open(path)
        whole = Path(self.path).read_bytes()
        for n in (0, 3, 24, 500, len(whole) // 2, len(whole) - 1):
            Path(path).write_bytes(whole[:n])
            with self.assertRaises(ValueError, msg=n):
                qn.llm.open(path)
        with self.assertRaisesRegex(qn.RangeError, "a chunk of 1"):
            qn.llm.open(self.path, chunk=1)

    def test_what_is_asked_for_wrongly(self):
        with qn.llm.open(self.path, context=32, chunk=2) as m:
            for bad, kind in (([260], qn.RangeError), ([-1], qn.RangeError), ([1 << 40], qn.RangeError),
                              ([1.5], TypeError), ([], qn.RangeError), (["a"], TypeError), (b"ab", TypeError),
                              ([*range(20), 999], qn.RangeError), (random_ids(33), qn.RangeError)):
                for call in (m.logits, m.generate, m.embed):
                    with self.assertRaises(kind, msg=bad):
                        call(bad)
            self.assertEqual(m.generate([1, 2], max_tokens=1), m.generate([1, 2], max_tokens=1))
            with self.assertRaisesRegex(RuntimeError, "traced by jit"):
                qn.jit(lambda x: x + m.logits([1]).sum())(qn.tensor(1.0))
            with self.assertRaises(qn.RangeError):
                m.rewind(30)
        m.close()
        for call in (lambda: m.logits([1]), lambda: m.generate("a"), lambda: m.cache, lambda: m.score([1, 2])):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()

    def test_a_child_has_none(self):
        if not hasattr(os, "fork"):
            self.skipTest("no fork")
        program = ("import os, sys, quern as qn\nm = qn.llm.open(sys.argv[1])\nm.logits([1])\n"
                   "pid = os.fork()\nif pid == 0:\n    try:\n        m.logits([1])\n    except ValueError as e:\n"
                   "        with qn.llm.open(sys.argv[1]) as own:\n            own.logits([1])\n"
                   "        del m\n        os._exit(7 if 'process' in str(e) else 8)\n    os._exit(9)\n"
                   "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, self.path],
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 7)


if __name__ == "__main__":
    unittest.main()
