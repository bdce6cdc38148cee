"""onnx_zoo.py - well-known networks as files of the ONNX format, exported from PyTorch with random weights.

exported("resnet50") is the path of a file, written once into a folder of the system's temporary ones. Weights follow
from a seed. What an initialization leaves constant, as shifts of norms or the scales of residual branches, is made
random, too, and the statistics of batch norms are those of random images: so activations have the sizes of a trained
network's, each parameter matters, and a wrong one shows in the outputs.

A network is made of torchvision's or transformers' code where they have it; the U-Net and the detector of YOLO's kind
are written here. Those that name axes are exported with sizes that vary.
"""

import os
import tempfile
import warnings
from typing import Any, Callable, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = os.path.join(tempfile.gettempdir(), "quern-onnx-zoo-1")
SEED = 1


# ---- networks written here --------------------------------------------------------------------------


class ConvUnit(nn.Sequential):
    """Convolution, batch norm, activation."""

    def __init__(self, into, out, kernel=3, stride=1, activation=nn.SiLU):
        super().__init__(nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out),
                         activation())


class UNet(nn.Module):
    """Four levels down and up, transposed convolutions between, and a mask of one channel."""

    def __init__(self, width=32, levels=4):
        super().__init__()
        widths = [width << k for k in range(levels + 1)]

        def twice(into, out):
            return nn.Sequential(ConvUnit(into, out, activation=nn.ReLU), ConvUnit(out, out, activation=nn.ReLU))
        self.down = nn.ModuleList([twice(3 if k == 0 else widths[k - 1], widths[k]) for k in range(levels + 1)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(widths[k + 1], widths[k], 2, 2) for k in range(levels)])
        self.up = nn.ModuleList([twice(2 * widths[k], widths[k]) for k in range(levels)])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for k, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k in reversed(range(len(self.up))):
            x = self.up[k](torch.cat([self.grow[k](x), kept[k]], 1))
        return torch.sigmoid(self.last(x))


class Bottlenecks(nn.Module):
    """YOLO's block: half of the channels through residual units, and all that comes of them joined."""

    def __init__(self, into, out, n, residual=True):
        super().__init__()
        self.half, self.residual = out // 2, residual
        self.first = ConvUnit(into, out, 1)
        self.units = nn.ModuleList(
            [nn.Sequential(ConvUnit(self.half, self.half), ConvUnit(self.half, self.half)) for _ in range(n)])
        self.last = ConvUnit((2 + n) * self.half, out, 1)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for unit in self.units:
            y = unit(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Of the kind of the small YOLO networks: a backbone, pooled pyramids, three heads whose boxes are decoded."""

    def __init__(self, width=16, classes=80):
        super().__init__()
        w = [width << k for k in range(5)]
        self.stem = nn.Sequential(ConvUnit(3, w[0], 3, 2), ConvUnit(w[0], w[1], 3, 2), Bottlenecks(w[1], w[1], 1))
        self.c3 = nn.Sequential(ConvUnit(w[1], w[2], 3, 2), Bottlenecks(w[2], w[2], 2))
        self.c4 = nn.Sequential(ConvUnit(w[2], w[3], 3, 2), Bottlenecks(w[3], w[3], 2))
        self.c5 = nn.Sequential(ConvUnit(w[3], w[4], 3, 2), Bottlenecks(w[4], w[4], 1))
        self.into, self.out = ConvUnit(w[4], w[3], 1), ConvUnit(4 * w[3], w[4], 1)
        self.p4 = Bottlenecks(w[4] + w[3], w[3], 1, False)
        self.p3 = Bottlenecks(w[3] + w[2], w[2], 1, False)
        self.heads = nn.ModuleList([nn.Sequential(ConvUnit(c, 64), ConvUnit(64, 64), nn.Conv2d(64, 4 + classes, 1))
                                    for c in w[2:]])

    def forward(self, x):
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        y = [self.into(self.c5(c4))]
        for _ in range(3):
            y.append(F.max_pool2d(y[-1], 5, 1, 2))
        c5 = self.out(torch.cat(y, 1))
        p4 = self.p4(torch.cat([F.interpolate(c5, scale_factor=2.0), c4], 1))
        p3 = self.p3(torch.cat([F.interpolate(p4, scale_factor=2.0), c3], 1))
        found = []
        for head, level, stride in zip(self.heads, (p3, p4, c5), (8, 16, 32)):
            y = head(level)
            rows, columns = y.shape[2:]
            y = y.flatten(2).transpose(1, 2)
            at = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(1) + 0.5
            middle = (at + y[..., :2].sigmoid() * 2 - 1) * stride
            half = y[..., 2:4].sigmoid() * 4 * stride
            found.append(torch.cat([middle - half, middle + half, y[..., 4:].sigmoid()], -1))
        return torch.cat(found, 1)


# ---- networks of others -----------------------------------------------------------------------------


def vision(name, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **options)
    return make


class Ssd(nn.Module):
    """Boxes, scores and labels of one image; suppression within the network."""

    def __init__(self):
        super().__init__()
        import torchvision
        self.net = torchvision.models.detection.ssdlite320_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=21, score_thresh=0.02, detections_per_img=50)

    def forward(self, x):
        if self.training:
            features = list(self.net.backbone(x).values())
            return self.net.head(features)["bbox_regression"]
        found = self.net([x[0]])[0]
        return found["boxes"], found["scores"], found["labels"]


def text(name, config, call, **sizes):
    """A model of transformers behind a function of plain tensors."""
    def make():
        import transformers
        options = {"attn_implementation": "sdpa"} if name != "WhisperModel" else {}
        made = getattr(transformers, name)(getattr(transformers, config)(**sizes, **options))

        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = made

            def forward(self, first, second=None):
                return call(self.net, first) if second is None else call(self.net, first, second)
        return Plain()
    return make


def bert_of(net, ids, mask):
    out = net(input_ids=ids, attention_mask=mask)
    return out.last_hidden_state, out.pooler_output


WHISPER = dict(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
               encoder_ffn_dim=1536, decoder_ffn_dim=1536, vocab_size=51865, num_mel_bins=80)


# ---- inputs -----------------------------------------------------------------------------------------


def image(rng, size=224):
    return [rng.standard_normal((1, 3, size, size)).astype(np.float32)]


def words(length, vocabulary, masked=0):
    def make(rng):
        ids = rng.integers(0, vocabulary, (1, length))
        mask = np.ones_like(ids)
        mask[:, length - masked:] = 0
        return [ids, mask] if masked else [ids]
    return make


class Network(NamedTuple):
    make: Callable[[], nn.Module]
    data: Callable[[np.random.Generator], list]
    names: tuple = ("image",)
    axes: Any = None       # names of axes that vary, by input
    old: bool = False      # by the exporter that traces, which many files that are about came from
    static: bool = True    # False: shapes follow from values


NETWORKS = {
    "resnet50": Network(vision("resnet50"), image),
    "mobilenet_v3": Network(vision("mobilenet_v3_large"), image),
    "efficientnet_b0": Network(vision("efficientnet_b0"), image),
    "squeezenet": Network(vision("squeezenet1_1"), image, old=True),
    "densenet121": Network(vision("densenet121"), image, old=True),
    "convnext_tiny": Network(vision("convnext_tiny"), image),
    "vit_b_16": Network(vision("vit_b_16"), image),
    "swin_t": Network(vision("swin_t"), image),
    "unet": Network(UNet, image),
    "yolo": Network(Detector, lambda rng: image(rng, 320)),
    "ssdlite": Network(Ssd, lambda rng: image(rng, 320), old=True, static=False),
    "bert_base": Network(text("BertModel", "BertConfig", bert_of), words(128, 30522, 16), ("ids", "mask"),
                         axes={"ids": {1: "length"}, "mask": {1: "length"}}),
    "gpt2": Network(text("GPT2LMHeadModel", "GPT2Config", lambda net, ids: net(ids, use_cache=False).logits),
                    words(64, 50257), ("ids",)),
    "whisper_encoder": Network(
        text("WhisperModel", "WhisperConfig", lambda net, x: net.encoder(x).last_hidden_state, **WHISPER),
        lambda rng: [rng.standard_normal((1, 80, 3000)).astype(np.float32)], ("mel",)),
    "whisper_decoder": Network(
        text("WhisperModel", "WhisperConfig", lambda net, ids, sound: net.decoder(
            input_ids=ids, encoder_hidden_states=sound, use_cache=False).last_hidden_state, **WHISPER),
        lambda rng: [rng.integers(0, 51865, (1, 16)), rng.standard_normal((1, 1500, 384)).astype(np.float32)],
        ("ids", "sound")),
}


# ---- weights and files ------------------------------------------------------------------------------


def enliven(net, inputs):
    """Random in place of constant parameters; batch norms with the statistics of some inputs."""
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    with torch.no_grad():
        for p in net.parameters():
            if p.numel() > 1 and p.min() == p.max():
                p.add_(torch.randn_like(p), alpha=0.1)
        if norms:
            for m in norms:
                m.reset_running_stats()
                m.momentum = None
            net.train()
            for _ in range(2):
                net(torch.randn(4, *inputs[0].shape[1:]))
    net.eval()


def inputs_of(name, seed=SEED):
    """Arrays, by the inputs' names."""
    network = NETWORKS[name]
    return dict(zip(network.names, network.data(np.random.default_rng(seed))))


def export(name, path):
    network = NETWORKS[name]
    torch.manual_seed(SEED)
    inputs = tuple(torch.from_numpy(x) for x in inputs_of(name).values())
    net = network.make()
    enliven(net, inputs)
    options = {"input_names": list(network.names)}
    if network.old:
        options.update(dynamo=False, opset_version=17, do_constant_folding=True)
    else:
        options.update(dynamo=True, external_data=False, verbose=False)
    if network.axes:
        options["dynamic_shapes"] = tuple(
            {k: torch.export.Dim(v, min=2, max=512) for k, v in network.axes[n].items()} for n in network.names)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, inputs, path, **options)


def exported(name, folder=FOLDER):
    """The path of a network's file; it is written first where there is none."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".onnx")
    if not os.path.exists(path):
        export(name, path + ".part")
        os.rename(path + ".part", path)
    return path
