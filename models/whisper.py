"""whisper.py - speech to text (Radford et al. 2023), with the names of transformers' WhisperForConditionalGeneration.

    model = load("whisper-tiny")              # folder with config.json, model.safetensors, tokenizer.json
    text = model.transcribe(samples)          # a list, an array or a tensor: 16,000 a second, from -1 to 1

    logits = model(log_mel(samples), ids)     # [N, 80, 3000], [N, T] -> [N, T, vocabulary]

    python models/whisper.py FOLDER speech.wav [LANGUAGE]        # 16 kHz; the language as "en", else it is heard

An encoder reads 30 seconds at once, a decoder says one token behind the other. Each has one static graph: the cache
of keys and values is as long as a text may become, and places behind the token that is read are masked, so no
token is a new graph. Text is the likeliest token each time, without times.
"""

import array
import functools
import json
import math
import os
import sys
import wave

import quern
from quern import nn
from quern.nn import functional as F

RATE, WINDOW, HOP = 16000, 400, 160  # samples: of a second, of a spectrum, from one spectrum to the next


# ---- sound ---------------------------------------------------------------------------------------


def mel(hertz):
    """Slaney's scale (Auditory Toolbox, 1998): 3 in 200 Hz up to 1000 Hz, from there 27 for a factor of 6.4."""
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def hertz(mel):
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


@functools.lru_cache
def mel_filters(mels):
    """[mels, 201]: triangles over frequencies from 0 to 8000 Hz, evenly spaced in mel, each of area 1."""
    edges = [hertz(mel(RATE / 2) * k / (mels + 1)) for k in range(mels + 2)]
    bins = [k * RATE / WINDOW for k in range(WINDOW // 2 + 1)]
    return quern.tensor([[max(0.0, min((f - a) / (b - a), (c - f) / (c - b))) * 2 / (c - a) for f in bins]
                         for a, b, c in zip(edges, edges[1:], edges[2:])])


@quern.jit
def spectrum(x, filters):
    """Samples [N, S] -> [N, mels, S / 160]: logarithms of power, from the loudest down to a hundred-millionth."""
    hann = 0.5 - 0.5 * (quern.arange(WINDOW) * (2 * math.pi / WINDOW)).cos()
    x = quern.pad(x, (0, 0, WINDOW // 2, WINDOW // 2), mode="reflect")
    waves = quern.rfft(quern.unfold(x, 1, WINDOW, HOP)[:, :-1] * hann)      # [N, frames, 201, re and im]
    power = (waves * waves).sum(axis=-1)
    x = quern.maximum(filters @ power.transpose(1, 2), 1e-10).log10()
    return (quern.maximum(x, x.max(axis=(1, 2), keepdims=True) - 8) + 4) / 4


def log_mel(samples, mels=80, seconds=30):
    """What the encoder reads of samples [S] or [N, S], which are cut or filled with silence: [N, mels, 3000]."""
    x = quern.asarray(samples).cast("float32")
    x = (x if x.ndim == 2 else x.unsqueeze(0))[:, :seconds * RATE]
    return spectrum(quern.pad(x, (0, 0, 0, seconds * RATE - x.shape[1])).realize(), mel_filters(mels))


def read_wav(path):
    """The samples of a file of 16 bits and 16 kHz; of several channels their mean."""
    with wave.open(path) as f:
        if (f.getsampwidth(), f.getframerate()) != (2, RATE):
            raise ValueError(f"{path} has {8 * f.getsampwidth()} bits at {f.getframerate()} Hz, not 16 at {RATE}")
        data, channels = array.array("h", f.readframes(f.getnframes())), f.getnchannels()
    if sys.byteorder == "big":
        data.byteswap()
    return quern.tensor(data).reshape(-1, channels).cast("float32").mean(axis=1) / 32768


# ---- the network ---------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj, self.q_proj, self.out_proj = (nn.Linear(width, width) for _ in range(3))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def remembered(self, x):
        """Keys and values [N, heads, T, size] of x [N, T, width]."""
        return self.split(self.k_proj(x)), self.split(self.v_proj(x))

    def forward(self, x, keys, values, seen=None, causal=False):
        y = F.scaled_dot_product_attention(self.split(self.q_proj(x)), keys, values, seen, is_causal=causal)
        return self.out_proj(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Attention to x itself and, in a decoder, to what was heard; then a perceptron."""

    def __init__(self, width, heads, decodes):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        if decodes:
            self.encoder_attn, self.encoder_attn_layer_norm = Attention(width, heads), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x, heard=None, past=None, at=None):
        """past: keys and values of the tokens before place `at`, where those of x go, its only token; None: x is all
        there is, and a decoder's tokens see those before them. Gives x and the past of the next call."""
        y = self.self_attn_layer_norm(x)
        new, seen = self.self_attn.remembered(y), None
        if past is not None:
            places = quern.arange(past[0].shape[2])
            new, seen = [quern.where((places == at).unsqueeze(-1), a, b) for a, b in zip(new, past)], places <= at
        x = x + self.self_attn(y, *new, seen, causal=heard is not None and past is None)
        if heard is not None:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), *heard)
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))), new


class Part(nn.Module):
    """What encoder and decoder have in common."""

    def __init__(self, places, width, layers, heads, decodes):
        super().__init__()
        self.embed_positions = nn.Embedding(places, width)
        self.layers = nn.ModuleList(Layer(width, heads, decodes) for _ in range(layers))
        self.layer_norm = nn.LayerNorm(width)


class Encoder(Part):
    def __init__(self, mels, places, width, layers, heads):
        super().__init__(places, width, layers, heads, False)
        self.conv1, self.conv2 = nn.Conv1d(mels, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, padding=1)
        speeds = (quern.arange(width // 2) * (-math.log(10000) / (width // 2 - 1))).exp()
        angles = quern.arange(places).unsqueeze(-1) * speeds
        self.embed_positions.weight.requires_grad_(False)
        self.embed_positions.weight.assign(quern.concat([angles.sin(), angles.cos()], axis=1))

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2) + self.embed_positions.weight
        for layer in self.layers:
            x, _ = layer(x)
        return self.layer_norm(x)


class Decoder(Part):
    def __init__(self, vocabulary, places, width, layers, heads):
        super().__init__(places, width, layers, heads, True)
        self.embed_tokens = nn.Embedding(vocabulary, width)

    def heard(self, x):
        """Keys and values of what the encoder made, for each layer: they are the same for all tokens."""
        return [layer.encoder_attn.remembered(x) for layer in self.layers]

    def forward(self, ids, heard, past=None, at=None):
        """ids [N, T]; T is 1 where there is a past. Gives logits [N, T, vocabulary] and the next past."""
        where = quern.arange(ids.shape[1]) if at is None else at.reshape(1)
        x, next_past = self.embed_tokens(ids) + self.embed_positions(where), []
        for k, layer in enumerate(self.layers):
            x, new = layer(x, heard[k], past and past[k], at)
            next_past.append(new)
        return F.linear(self.layer_norm(x), self.embed_tokens.weight), next_past


class Whisper(nn.Module):
    """settings: what generation_config.json says of tokens, by its names."""

    def __init__(self, vocabulary=51865, mels=80, width=384, layers=(4, 4), heads=6, context=448, places=1500,
                 tokenizer=None, settings=None):
        super().__init__()
        self.model = nn.Module()
        self.model.encoder = Encoder(mels, places, width, layers[0], heads)
        self.model.decoder = Decoder(vocabulary, context, width, layers[1], heads)
        self.mels, self.context, self.heads, self.seconds = mels, context, heads, places * 2 * HOP // RATE
        self.tokenizer, self.settings = tokenizer, settings or {}

    def forward(self, features, ids):
        """Logits [N, T, vocabulary] of what follows each token."""
        decoder = self.model.decoder
        return decoder(ids, decoder.heard(self.model.encoder(features)))[0]

    @quern.jit
    def hear(self, features):
        return self.model.decoder.heard(self.model.encoder(features))

    @quern.jit(donate=2)
    def step(self, ids, at, past, heard, banned):
        """ids [N, 1] at place `at` [] -> the likeliest that follow, [N], of those not banned [vocabulary], and past."""
        logits, past = self.model.decoder(ids, heard, past, at)
        return quern.where(banned, -math.inf, logits[:, 0]).argmax(axis=-1), past

    def empty(self, n):
        """The past of no token."""
        size = self.model.decoder.layer_norm.weight.shape[0] // self.heads
        return [[quern.zeros((n, self.heads, self.context, size)).realize() for _ in range(2)]
                for _ in self.model.decoder.layers]

    def mask(self, ids, value=True):
        """bool [vocabulary]: `value` for the ids, not so for the others."""
        ids = set(ids)
        return quern.tensor([(k in ids) == value for k in range(self.model.decoder.embed_tokens.weight.shape[0])])

    def generate(self, heard, prompt, most=None, ends=(), banned=(), first=None):
        """Ids that follow a prompt of ids, for each of what was heard: `most`, or up to one of `ends`, which is not
        among them. None is one of `banned`, nor in the mask `first` the first of them."""
        n, read = heard[0][0].shape[0], len(prompt) - 1
        banned, past, ids = self.mask(banned), self.empty(n), None
        said, live = [[] for _ in range(n)], set(range(n))
        for at in range(min(self.context, read + (most or self.context))):
            given = quern.tensor([prompt[at]] * n if at <= read else ids).reshape(n, 1)
            with quern.no_grad():
                made, past = self.step(given, quern.tensor(at), past, heard,
                                       first if at == read and first is not None else banned)
            if at < read:
                continue
            ids = made.tolist()
            live -= {k for k in live if ids[k] in ends}
            for k in live:
                said[k].append(ids[k])
            if not live:
                break
        return said

    def prompt(self, heard, language=None, task="transcribe"):
        """What a text begins with; the language, "en", is the likeliest unless it is given."""
        said = self.settings
        start, without_times = [said["decoder_start_token_id"]], [said["no_timestamps_token_id"]]
        if not said.get("lang_to_id") or said.get("is_multilingual") is False:
            return start + without_times
        if language is None:
            known = said["lang_to_id"].values()
            spoken = self.generate(heard, start, 1, first=self.mask(known, False))[0]
        else:
            spoken = [said["lang_to_id"][f"<|{language}|>"]]
        return start + spoken + [said["task_to_id"][task]] + without_times

    def transcribe(self, samples, language=None, task="transcribe"):
        """The text of one recording: parts of 30 seconds, each by itself. task: "translate" gives English."""
        samples, texts, size, said = quern.asarray(samples), [], self.seconds * RATE, self.settings
        banned, ends = said.get("suppress_tokens") or [], said["eos_token_id"]
        ends = ends if isinstance(ends, list) else [ends]
        first = self.mask([*banned, *(said.get("begin_suppress_tokens") or [])])
        for at in range(0, samples.shape[0], size):
            with quern.no_grad():
                heard = self.hear(log_mel(samples[at:at + size], self.mels, self.seconds))
            ids, = self.generate(heard, self.prompt(heard, language, task), None, ends, banned, first)
            text = [k for k in ids if k <= said["no_timestamps_token_id"]]              # those behind it are times
            texts.append(self.tokenizer.decode(text).strip())
        return " ".join(texts)


# ---- files ---------------------------------------------------------------------------------------


def read_json(folder, file):
    path = os.path.join(folder, file)
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def load(folder):
    """The model of a folder, ready to transcribe."""
    c = read_json(folder, "config.json")
    for name, usual in (("model_type", "whisper"), ("activation_function", "gelu"), ("scale_embedding", False)):
        if c.get(name, usual) != usual:
            raise ValueError(f"{folder}: {name} is {c[name]!r}, and {usual!r} is what this model has")
    tokenizer = quern.llm.tokenizer(folder) if os.path.exists(os.path.join(folder, "tokenizer.json")) else None
    model = Whisper(c["vocab_size"], c["num_mel_bins"], c["d_model"], (c["encoder_layers"], c["decoder_layers"]),
                    c["decoder_attention_heads"], c["max_target_positions"], c["max_source_positions"], tokenizer,
                    {**c, **read_json(folder, "generation_config.json")})
    lacking = model.load_state_dict(quern.load(os.path.join(folder, "model.safetensors")), strict=False).missing_keys
    if lacking:
        raise RuntimeError(f"{folder}: model.safetensors has no {', '.join(lacking[:4])}")
    return model.eval()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: whisper.py FOLDER SPEECH.wav [LANGUAGE]")
    print(load(sys.argv[1]).transcribe(read_wav(sys.argv[2]), *sys.argv[3:]))
