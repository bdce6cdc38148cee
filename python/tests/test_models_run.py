"""models/ that run what others have trained: embeddings of sentences, speech to text, images by diffusion. Beside
transformers' modules and PyTorch, and, wherever it runs, beside numbers that were computed by those."""

import array
import contextlib
import io
import json
import math
import os
import shutil
import sys
import tempfile
import unittest
import wave
from pathlib import Path

import quern as qn
from quern import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))

import bert  # noqa: E402
import dit  # noqa: E402
import minilm  # noqa: E402
import whisper  # noqa: E402

try:
    import numpy as np
    import torch
    from . import torch_models as plain
except ImportError:
    torch = None
try:
    import transformers
except ImportError:
    transformers = None


def waved(model, scale=0.3):
    """A model whose weights follow from their names alone, in evaluation."""
    state = {}
    for phase, (name, x) in enumerate(sorted(model.state_dict().items()), 1):
        base = 1 if x.ndim == 1 and name.endswith("weight") else 0
        values = [base + scale * math.sin(1.7 * k * k + 0.37 * k + phase) for k in range(x.size)]
        state[name] = qn.tensor(values).reshape(x.shape)
    model.load_state_dict(state)
    return model.eval()


def planned(f):
    """How many kernels are compiled and plans are made by f, and what it gives."""
    before = qn.stats()
    made = f()
    after = qn.stats()
    return (after["compiles"] - before["compiles"], after["plans"] - before["plans"]), made


def to_torch(x):
    return torch.from_numpy(np.array(x))


def sine(seconds, hertz=440, rate=16000):
    return [0.5 * math.sin(2 * math.pi * hertz * k / rate) for k in range(int(seconds * rate))]


def chirp():
    """A second from 50 to 7700 Hz."""
    return [0.5 * math.sin(0.02 * k + 9.4e-5 * k * k) for k in range(16000)]


class Near(unittest.TestCase):
    def near(self, got, want, within=1e-4):
        """Lists, or a tensor and another or PyTorch's: within a part of the largest number."""
        a = got.detach() if isinstance(got, qn.Tensor) else qn.tensor(got)
        b = want.detach() if isinstance(want, qn.Tensor) else \
            qn.tensor(want if isinstance(want, list) else want.detach().numpy())
        self.assertEqual(a.shape, b.shape)
        self.assertLess((abs(a - b).max() / abs(b).max()).item(), within)


# ---- sentences -----------------------------------------------------------------------------------

WORDS = ROOT / "tests" / "text" / "cases" / "bert.json"
BERT = {"vocab_size": 305, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": 32, "pad_token_id": 3, "model_type": "bert"}
TEXTS = ["what is a tensor", "Hello!", "the same, but for some more words of it", "one " * 60, "wait", ""]
# The first numbers of the vectors of ids 1 .. 7 and 1 .. 4 by transformers 5.24: the mean of a BertModel's last states,
# of length 1. Beside.test_numbers_that_stand_here computes them again.
VECTORS = [[0.116703, -0.222217, -0.13827, 0.604175, -0.24791, -0.078184], [-0.009302, -0.225388, -0.315738, 0.278524,
           -0.201101, -0.017334]]
POOLINGS = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}


def write_folder(folder, config, state, **more):
    """A model as a folder of files of transformers'."""
    os.makedirs(folder, exist_ok=True)
    for name, content in {"config.json": config, **more}.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)
    qn.save(os.path.join(folder, "model.safetensors"), state)


class Sentences(Near):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = os.path.join(cls.made.name, "mini")
        cls.state = waved(minilm.bert_of(BERT)).state_dict()
        write_folder(cls.folder, BERT, cls.state)
        shutil.copy(WORDS, os.path.join(cls.folder, "tokenizer.json"))
        cls.model = minilm.load(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def test_vectors(self):
        ids, mask = qn.tensor([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 9, 9, 9]]), qn.tensor([[1] * 7, [1] * 4 + [0] * 3])
        with qn.no_grad():
            made = self.model(ids, mask)
        self.near(made[:, :6], VECTORS)
        self.near((made * made).sum(axis=1), [1.0, 1.0], 1e-6)

    def test_a_text_is_the_same_alone_and_in_any_batch(self):
        alone = [self.model.encode(text).tolist() for text in TEXTS]
        for batch in 1, 2, 32:
            self.near(self.model.encode(TEXTS, batch), alone, 1e-5)
        self.assertEqual(self.model.encode([]).shape, (0, 24))

    def test_texts_are_cut_before_their_end(self):
        ids = self.model.ids(TEXTS[3])
        self.assertEqual((len(ids), ids[0], ids[-1]), (32, 1, 2))
        write_folder(self.folder + "-short", BERT, self.state, **{"sentence_bert_config.json": {"max_seq_length": 9}})
        shutil.copy(WORDS, self.folder + "-short/tokenizer.json")
        self.assertEqual(len(minilm.load(self.folder + "-short").ids(TEXTS[3])), 9)

    def test_texts_of_like_lengths_share_a_graph(self):
        self.model.encode(["a b", "a", "b a"]).tolist()
        more, _ = planned(lambda: self.model.encode(["a", "b b b", "b c d a"]).tolist())
        self.assertEqual(more, (0, 0))

    def test_the_first_token_stands_where_the_folder_says_so(self):
        folder = self.folder + "-first"
        asked = {**POOLINGS, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        write_folder(folder, BERT, {"bert." + name: x for name, x in self.state.items()},
                     **{"1_Pooling/config.json": asked})
        shutil.copy(WORDS, folder)
        shutil.move(os.path.join(folder, "bert.json"), os.path.join(folder, "tokenizer.json"))
        first = minilm.load(folder)
        with qn.no_grad():
            h = first.bert(qn.tensor([first.ids("wait")]))[0][0, 0]
        self.near(first.encode("wait"), h / (h * h).sum().sqrt(), 1e-5)

    def test_what_is_not_this_model_is_said(self):
        for change, files, text in (({"hidden_act": "relu"}, {}, "hidden_act is 'relu'"),
                                    ({"model_type": "mpnet"}, {}, "model_type is 'mpnet'"),
                                    ({}, {"1_Pooling/config.json": {**POOLINGS, "pooling_mode_max_tokens": True}},
                                     "neither the mean nor the first token")):
            write_folder(self.folder + "-other", {**BERT, **change}, self.state, **files)
            with self.assertRaisesRegex(ValueError, text):
                minilm.load(self.folder + "-other")
        rest = {name: x for name, x in self.state.items() if "layer.1.output.dense" not in name}
        write_folder(self.folder + "-less", BERT, rest)
        with self.assertRaisesRegex(RuntimeError, "has no encoder.layer.1.output.dense.weight"):
            minilm.load(self.folder + "-less")

    def test_the_command_compares_the_first_with_the_others(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            minilm.main(self.folder, "wait", "hello", "wait")
        lines = said.getvalue().splitlines()
        self.assertEqual([line.split()[1] for line in lines], ["hello", "wait"])
        self.assertEqual(float(lines[1].split()[0]), 1)
        self.assertLess(float(lines[0].split()[0]), 1)


# ---- speech --------------------------------------------------------------------------------------

WHISPER = {"vocab_size": 97, "num_mel_bins": 16, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
           "max_source_positions": 50, "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2, "decoder_start_token_id": 3, "model_type": "whisper"}
TOKENS = {"lang_to_id": {"<|en|>": 10, "<|de|>": 11}, "task_to_id": {"transcribe": 12, "translate": 13},
          "no_timestamps_token_id": 80, "suppress_tokens": [88, 93], "begin_suppress_tokens": [83, 89]}
FEATURES = [[math.sin(0.3 * k + 0.05 * k * j / 7) for k in range(100)] for j in range(16)]
PROMPT = [3, 5, 7]
# By transformers 5.24: the likeliest 40 ids behind PROMPT and the first logits behind it, for FEATURES and what they
# are backwards, by WhisperForConditionalGeneration without a cache; of chirp() what WhisperFeatureExtractor makes of
# every eighth mel at its beginning, in its middle and at its end.
SAID = [[93, 93, 93, 93, 89, 89, 88, 88, 89, 89, 93, 13, 33, 33, 33, 33, 33, 89, 89, 88, 33, 33, 33, 33, 33, 89, 33,
        33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33], [83, 33, 2, 2, 89, 33, 33, 33, 33, 2, 2, 70, 13, 2, 33,
        33, 33, 13, 2, 33, 33, 33, 33, 33, 33, 70, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 8, 33]]
LOGITS = [[-0.703557, 1.014492, 1.465941, -1.925979, 0.207767, -1.695425], [-0.680979, 1.16371, 1.802198, -1.796101,
          -0.249539, -1.969765]]
CHIRP = [[1.385805, 0.651092, 0.357147, 0.190952, 0.055409, -0.064108, -0.199105, -0.318217, -0.426579, -0.512],
         [-0.58639, -0.58639, -0.58639, -0.58639, -0.58639, -0.58639, -0.58639, -0.58639, -0.322192, -0.58639],
         [0.258663, 0.25913, 0.260362, 0.262324, 0.262112, 0.279017, 0.281886, 0.305099, 0.350891, 0.461997]]


def tiny_whisper():
    return waved(whisper.Whisper(97, 16, 32, (2, 2), 4, 64, 50))


def both_ways(features):
    return qn.tensor([features, [row[::-1] for row in features]])


class Speech(Near):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.model, cls.features = tiny_whisper(), both_ways(FEATURES)
        with qn.no_grad():
            cls.heard = cls.model.hear(cls.features)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def slowly(self, features, prompt, most, ends=(), banned=(), first=None):
        """generate() of one recording without a cache."""
        ids, said = list(prompt), []
        while len(said) < most and len(ids) <= self.model.context:
            with qn.no_grad():
                logits = self.model(features, qn.tensor([ids]))[0, -1].tolist()
            off = banned if said or first is None else first
            ids.append(max((k for k in range(97) if k not in off), key=logits.__getitem__))
            if ids[-1] in ends:
                break
            said.append(ids[-1])
        return said

    def test_logits_and_forty_ids(self):
        with qn.no_grad():
            self.near(self.model(self.features, qn.tensor([PROMPT] * 2))[:, -1, :6], LOGITS)
        self.assertEqual(self.model.generate(self.heard, PROMPT, 40), SAID)

    def test_a_token_is_no_new_graph(self):
        self.model.generate(self.heard, PROMPT, 2)
        more, said = planned(lambda: self.model.generate(self.heard, PROMPT + [9], 40))
        self.assertEqual(more, (0, 0))
        self.assertEqual([len(ids) for ids in said], [40, 40])

    def test_a_text_ends_with_an_end_or_the_cache(self):
        for k, want in enumerate(SAID):
            got = self.model.generate(self.heard, PROMPT, 40, ends=[want[20]])[k]
            self.assertEqual(got, want[:want.index(want[20])])
        self.assertEqual([len(x) for x in self.model.generate(self.heard, PROMPT)], [62, 62])
        self.assertEqual(self.model.generate(self.heard, PROMPT)[1], self.slowly(self.features[1:], PROMPT, 99))

    def test_banned_ids_are_not_said(self):
        banned, first = SAID[0][4:6], [*SAID[0][4:6], SAID[0][0]]
        with qn.no_grad():
            heard = self.model.hear(self.features[:1])
        got, = self.model.generate(heard, PROMPT, 15, (), banned, self.model.mask(first))
        self.assertEqual(got, self.slowly(self.features[:1], PROMPT, 15, (), banned, first))

    def loaded(self, tokens):
        folder = os.path.join(self.made.name, "tiny")
        state = {name: x.cast("float16") for name, x in self.model.state_dict().items()}
        write_folder(folder, WHISPER, state, **{"generation_config.json": tokens})
        shutil.copy(ROOT / "tests" / "text" / "cases" / "gpt2.json", os.path.join(folder, "tokenizer.json"))
        return folder, whisper.load(folder)

    def test_recordings_are_heard_by_parts(self):
        folder, model = self.loaded(TOKENS)
        model.load_state_dict(self.model.state_dict())  # the files' values are rounded
        samples, texts, times = [*sine(1), *sine(0.4, 2000)], [], set()
        for part in samples[:16000], samples[16000:]:
            x = whisper.log_mel(part, 16, 1)
            language, = self.slowly(x, [3], 1, (), set(range(97)) - {10, 11})
            ids = self.slowly(x, [3, language, 12, 80], 99, [2], [88, 93], [88, 93, 83, 89])
            texts.append(model.tokenizer.decode([k for k in ids if k < 80]).strip())
            times.update(k for k in ids if k > 80)
        self.assertTrue(times)  # which are no text
        self.assertEqual(model.transcribe(samples), " ".join(texts))
        self.assertEqual(model.transcribe(qn.tensor(samples[:16000])), texts[0])
        heard = model.hear(whisper.log_mel(samples, 16, 1))
        self.assertEqual(model.prompt(heard, "de", "translate"), [3, 11, 13, 80])
        for english in {"no_timestamps_token_id": 80}, {**TOKENS, "is_multilingual": False}:
            self.assertEqual(self.loaded(english)[1].prompt(heard), [3, 80])

    def test_what_is_not_this_model_is_said(self):
        folder = os.path.join(self.made.name, "other")
        write_folder(folder, {**WHISPER, "activation_function": "relu"}, {"x": qn.zeros(1)})
        with self.assertRaisesRegex(ValueError, "activation_function is 'relu'"):
            whisper.load(folder)
        write_folder(folder, WHISPER, {"x": qn.zeros(1)})
        with self.assertRaisesRegex(RuntimeError, "model.safetensors has no model.encoder"):
            whisper.load(folder)

    def test_sounds_as_mels(self):
        made = whisper.log_mel(chirp())
        self.assertEqual(made.shape, (1, 80, 3000))
        self.near(made[0, ::8, :101:50].T, CHIRP)
        both = whisper.log_mel(qn.tensor([chirp(), [x / 100 for x in chirp()]]))
        self.near(both[:1], made, 1e-5)
        self.near(both[1:], whisper.log_mel([x / 100 for x in chirp()]), 1e-5)
        self.assertEqual(whisper.log_mel([0.0] * 99).tolist(), qn.full((1, 80, 3000), -1.5).tolist())

    def test_places_are_sines_and_cosines(self):
        places = whisper.Encoder(16, 50, 32, 1, 4).embed_positions.weight[7]
        speeds = [10000 ** (-k / 15) for k in range(16)]
        self.near(places, [math.sin(7 * v) for v in speeds] + [math.cos(7 * v) for v in speeds], 1e-5)

    def test_mels_are_triangles_of_area_1(self):
        area = (whisper.mel_filters(8).sum(axis=1) * 40).tolist()
        for a in area:
            self.assertAlmostEqual(a, 1, delta=0.03)
        for f in 0, 440, 999, 1000, 1001, 8000:
            self.assertAlmostEqual(whisper.hertz(whisper.mel(f)), f, 6)

    def test_files_of_sound(self):
        path = os.path.join(self.made.name, "x.wav")
        for rate, channels in (16000, 1), (16000, 2), (8000, 1):
            with wave.open(path, "w") as f:
                f.setnchannels(channels)
                f.setsampwidth(2)
                f.setframerate(rate)
                f.writeframes(array.array("h", [0, 16384, -32768, 8192]).tobytes())
            if rate == 16000:
                self.assertEqual(whisper.read_wav(path).tolist(),
                                 [0, 0.5, -1, 0.25] if channels == 1 else [0.25, -0.375])
        with self.assertRaisesRegex(ValueError, "16 bits at 8000 Hz, not 16 at 16000"):
            whisper.read_wav(path)


# ---- images --------------------------------------------------------------------------------------

# The first numbers of what torch_models.DiT makes in double precision of waved weights for the images of guessed().
GUESS = [-2.918053, -0.593541, -2.611073, -0.3704, -2.578099, -0.045186, -3.092993, -0.674734]


def tiny_dit():
    return waved(dit.DiT(8, 2, 3, 24, 2, 2, 4))


def guessed(model):
    x = qn.tensor([math.sin(k) for k in range(2 * 3 * 64)]).reshape(2, 3, 8, 8)
    with qn.no_grad():
        return x, qn.tensor([3, 870]), qn.tensor([1, 4]), model(x, qn.tensor([3, 870]), qn.tensor([1, 4]))


class Known(dit.DiT):
    """Whose noise is known, for each number by itself."""

    def forward(self, x, t, labels):
        t, labels = (v.cast("float32").reshape(-1, 1, 1, 1) for v in (t, labels))
        noise = (x + 0.2 * labels) * (0.5 + t / 2000)
        return qn.concat([noise, noise + 7], axis=1)  # variances, which nothing may follow from


def drawn_by_hand(x, label, steps, guidance):
    """Equation 12 of Song et al. (2021) without noise, of one number, in double precision."""
    alpha, a = [], 1.0
    for t in range(1000):
        a *= 1 - (1e-4 + (0.02 - 1e-4) * t / 999)
        alpha.append(a)
    times = [999 - k * 1000 // steps for k in range(steps)]
    for k, t in enumerate(times):
        told, untold = ((x + 0.2 * y) * (0.5 + t / 2000) for y in (label, 4))
        noise = untold + guidance * (told - untold)
        now, then = alpha[t], alpha[times[k + 1]] if k + 1 < steps else 1.0
        x = math.sqrt(then) * (x - math.sqrt(1 - now) * noise) / math.sqrt(now) + math.sqrt(1 - then) * noise
    return x


class Images(Near):
    def test_a_guess(self):
        self.near(guessed(tiny_dit())[-1].reshape(-1)[:8], GUESS, 1e-5)

    def test_steps_are_those_by_hand_and_one_graph(self):
        model = Known(4, 2, 1, 8, 1, 1, 4)
        noise = qn.randn(qn.key(1), (3, 1, 4, 4)).realize()
        flat = noise.reshape(3, 16).tolist()
        model.sample([0, 1, 3], 2, 1.0, noise)
        for steps, guidance in (1, 4.0), (7, 1.0), (20, 2.5):
            more, made = planned(lambda: model.sample([0, 1, 3], steps, guidance, noise).reshape(3, 16).tolist())
            self.assertEqual(more, (0, 0))
            self.near(made, [[drawn_by_hand(x, label, steps, guidance) for x in row]
                             for row, label in zip(flat, (0, 1, 3))])
        self.assertEqual(noise.reshape(3, 16).tolist(), flat)

    def test_places_are_columns_before_rows(self):
        places = dit.DiT(6, 2, 1, 8, 1, 1, 4).pos_embed[0, 5]  # row 1, column 2
        self.near(places, [f(k * v) for k in (2, 1) for f in (math.sin, math.cos) for v in (1, 0.01)], 1e-6)

    def test_a_model_begins_as_nothing(self):
        model = dit.DiT(8, 2, 1, 24, 2, 2, 4)
        self.assertEqual(abs(guessed_of(model)).max().item(), 0)
        for block in model.blocks:
            self.assertEqual(abs(block.adaLN_modulation[1].weight).max().item(), 0)

    def test_labels_are_dropped_for_some(self):
        nn.manual_seed(1)
        model, told = dit.digits(16, 1, 1), []
        model.y_embedder.forward = lambda labels: told.append(labels.tolist()) or qn.zeros((len(told[-1]), 16))
        for part in 0.0, 0.5, 1.0:
            model.loss(qn.zeros((400, 1, 8, 8)), qn.full((400,), 3), part)
        rates = [labels.count(10) / 400 for labels in told]
        self.assertEqual((rates[0], rates[2], set(told[1])), (0, 1, {3, 10}))
        self.assertAlmostEqual(rates[1], 0.5, delta=0.1)

    def test_digits_are_images_from_minus_1_to_1(self):
        digits = qn.tensor([[[0, 8], [16, 4]]], dtype="uint8")
        self.assertEqual(dit.scaled(digits).tolist(), [[[[-1, 0], [1, -0.5]]]])
        self.assertEqual(dit.shown(dit.scaled(digits)), "  ++\n@@::")

    def test_the_loss_of_digits_falls(self):
        with contextlib.redirect_stdout(io.StringIO()) as said, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "digits.safetensors")
            losses = dit.main(str(ROOT / "examples" / "data"), 120, path)
            again = dit.digits()
            again.load_state_dict(qn.load(path))
        self.assertGreater(losses[0], 0.9)
        self.assertLess(sum(losses[-40:]) / 40, 0.25)
        self.near(again.pos_embed, dit.places_of(4, 96), 1e-6)  # is not trained
        lines = said.getvalue().splitlines()
        self.assertEqual((len(lines), len(lines[-1])), (1 + 16, 5 * 16 + 4 * 2))


def guessed_of(model):
    return model(qn.ones((2, 1, 8, 8)), qn.tensor([3, 870]), qn.tensor([1, 4]))


# ---- beside PyTorch ------------------------------------------------------------------------------


@unittest.skipIf(torch is None or transformers is None, "PyTorch or transformers is not installed")
class Beside(Near):
    def bert(self):
        theirs = transformers.BertModel(transformers.BertConfig(**BERT)).eval()
        state = waved(minilm.bert_of(BERT)).state_dict()
        theirs.load_state_dict({name: to_torch(x) for name, x in state.items()}, strict=False)
        return theirs

    def whisper(self, **change):
        theirs = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
            **{**WHISPER, "suppress_tokens": None, "begin_suppress_tokens": None, **change})).eval()
        return theirs

    def said(self, theirs, features, prompt, most):
        x = torch.tensor([prompt] * len(features))
        with torch.no_grad():
            for _ in range(most):
                x = torch.cat([x, theirs(input_features=features, decoder_input_ids=x).logits[:, -1:].argmax(-1)], 1)
            return x[:, len(prompt):].tolist(), theirs(input_features=features, decoder_input_ids=x).logits

    def test_numbers_that_stand_here(self):
        states = self.bert()(torch.tensor([list(range(1, 8))])).last_hidden_state[0], \
            self.bert()(torch.tensor([list(range(1, 5))])).last_hidden_state[0]
        vectors = [h.mean(0) / h.mean(0).norm() for h in states]
        self.near([v[:6].tolist() for v in vectors], VECTORS, 1e-5)
        theirs = self.whisper()
        theirs.load_state_dict({name: to_torch(x) for name, x in tiny_whisper().state_dict().items()}, strict=False)
        said, logits = self.said(theirs, to_torch(both_ways(FEATURES)), PROMPT, 40)
        self.assertEqual(said, SAID)
        self.near(logits[:, 2, :6], LOGITS, 1e-5)
        made = transformers.WhisperFeatureExtractor()(np.array(chirp()), sampling_rate=16000)["input_features"]
        self.near(made[0][::8, :101:50].T.tolist(), CHIRP, 1e-5)
        theirs = plain.DiT(8, 2, 3, 24, 2, 2, 4, 6).double()
        theirs.load_state_dict({name: to_torch(x) for name, x in tiny_dit().state_dict().items()})
        x, t, labels, _ = guessed(tiny_dit())
        self.near(theirs(to_torch(x).double(), to_torch(t), to_torch(labels)).flatten()[:8].tolist(), GUESS, 1e-5)

    def test_sentences(self):
        theirs = transformers.BertModel(transformers.BertConfig(**BERT)).eval()
        torch.manual_seed(1)
        for x in theirs.state_dict().values():
            if x.is_floating_point():
                x.copy_(x + 0.2 * torch.randn_like(x))
        with tempfile.TemporaryDirectory() as folder:
            theirs.save_pretrained(folder)
            shutil.copy(WORDS, os.path.join(folder, "tokenizer.json"))
            ours = minilm.load(folder)
            words = transformers.PreTrainedTokenizerFast(tokenizer_file=str(WORDS), pad_token="[PAD]")
        given = words(TEXTS, padding=True, truncation=True, max_length=32, return_tensors="pt")
        with torch.no_grad():
            h = theirs(given["input_ids"], given["attention_mask"]).last_hidden_state
        there = given["attention_mask"][..., None].float()
        want = torch.nn.functional.normalize((h * there).sum(1) / there.sum(1), dim=1)
        self.near(ours.encode(TEXTS, 4), want)

    def test_speech(self):
        for change in {}, {"encoder_layers": 3, "decoder_layers": 1, "d_model": 48, "encoder_ffn_dim": 192,
                           "decoder_ffn_dim": 192, "num_mel_bins": 24}:
            theirs = self.whisper(**change)
            torch.manual_seed(2)
            for name, x in theirs.state_dict().items():
                if x.is_floating_point() and "encoder.embed_positions" not in name:
                    x.copy_(x + 0.2 * torch.randn_like(x))
            with tempfile.TemporaryDirectory() as folder:
                theirs.save_pretrained(folder)
                ours = whisper.load(folder)
            features = torch.randn(2, theirs.config.num_mel_bins, 100)
            said, logits = self.said(theirs, features, PROMPT, 40)
            self.assertGreater(len(set(said[0])), 3)
            given = qn.tensor(features.numpy())
            with qn.no_grad():
                self.near(ours(given, qn.tensor([PROMPT + ids for ids in said])), logits)
                self.assertEqual(ours.generate(ours.hear(given), PROMPT, 40), said)
            # the encoder's places are those of the paper before any are loaded
            self.near(whisper.Encoder(16, 50, 32, 1, 4).embed_positions.weight,
                      self.whisper().model.encoder.embed_positions.weight)

    def test_mels(self):
        r = np.random.default_rng(1)
        for size in 80, 128:
            theirs = transformers.WhisperFeatureExtractor(feature_size=size)
            self.near(whisper.mel_filters(size), torch.tensor(theirs.mel_filters.T, dtype=torch.float32), 1e-6)
            for x in 0.1 * r.standard_normal(50000), np.array(sine(3, 1234)), 0.1 * r.standard_normal(490000):
                want = theirs(x, sampling_rate=16000, return_tensors="pt")["input_features"]
                self.near(whisper.log_mel(x.astype("float32"), size), want)

    def test_guesses(self):
        for sigma, channels in (True, 4), (False, 1):
            theirs = plain.DiT(12, 3, channels, 24, 2, 3, 5, channels * (1 + sigma))
            torch.manual_seed(1)
            for x in theirs.state_dict().values():
                x.copy_(x + 0.1 * torch.randn_like(x))
            ours = dit.DiT(12, 3, channels, 24, 2, 3, 5, sigma)
            ours.load_state_dict(theirs.state_dict())
            x, t, labels = torch.randn(3, channels, 12, 12), torch.tensor([0, 400, 999]), torch.tensor([0, 4, 5])
            self.near(ours(*(qn.tensor(v.numpy()) for v in (x, t, labels))), theirs(x, t, labels))


if __name__ == "__main__":
    unittest.main()
