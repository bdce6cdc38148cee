"""PyTorch modules that networks of models/ are held against, by the tests and by bench/models: plain ones, under
the names of the implementations whose checkpoints load. Imported only where torch is."""

import torch
from torch import nn
from torch.nn import functional as F


def label_loss(model, x, labels):
    return F.cross_entropy(model(x), labels)


def next_loss(model, ids):
    return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def mixture_loss(model, ids):
    return next_loss(model, ids) + 0.02 * unevenness(model)


def mlp(into, widths):
    layers = []
    for k, out in enumerate(widths):
        layers += [nn.Linear(into, out), *([nn.ReLU()] if k + 1 < len(widths) else []), nn.Dropout(0.0)]
        into = out
    return nn.Sequential(*layers)


class LSTM(nn.Module):
    def __init__(self, vocabulary, width, hidden, layers):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, hidden, layers, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


# ---- images --------------------------------------------------------------------------------------


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y)[0]
        return x + self.mlp(self.ln_2(x))


class ViT(nn.Module):
    def __init__(self, size, patch, layers, heads, width, classes):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.encoder.layers = nn.Sequential()
        for k in range(layers):
            self.encoder.layers.add_module(f"encoder_layer_{k}", ViTBlock(width, heads))
        self.encoder.ln = nn.LayerNorm(width, eps=1e-6)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(width, classes))

    def forward(self, x):
        patches = self.conv_proj(x).flatten(2).mT
        x = torch.cat([self.class_token.expand(len(x), 1, -1), patches], 1) + self.encoder.pos_embedding
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


class Named(nn.Module):
    """Modules under names, which a heir calls."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def double(into, out, between=None):
    layers = []
    for a, b in ((into, between or out), (between or out, out)):
        layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return Named(double_conv=nn.Sequential(*layers))


class ResidualBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = nn.Identity() if into == out else nn.Sequential(
            nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def resnet18(classes=1000):
    parts = {"conv1": nn.Conv2d(3, 64, 7, 2, 3, bias=False), "bn1": nn.BatchNorm2d(64), "relu": nn.ReLU(),
             "maxpool": nn.MaxPool2d(3, 2, 1)}
    for k, (into, out) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512))):
        parts[f"layer{k + 1}"] = nn.Sequential(ResidualBlock(into, out, 1 + (into < out)), ResidualBlock(out, out, 1))
    parts |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(), "fc": nn.Linear(512, classes)}
    model = nn.Sequential()
    for name, part in parts.items():
        model.add_module(name, part)
    return model


class UNet(nn.Module):
    def __init__(self, channels, classes, bilinear, width):
        super().__init__()
        half, w = 2 if bilinear else 1, width
        self.inc = double(channels, w)
        for k in range(1, 5):
            out = w * 2 ** k // (half if k == 4 else 1)
            down = nn.Sequential(nn.MaxPool2d(2), double(w * 2 ** (k - 1), out))
            self.add_module(f"down{k}", Named(maxpool_conv=down))
            into = w * 2 ** (5 - k)
            out = into // 2 // (half if k < 4 else 1)
            self.add_module(f"up{k}", Named(conv=double(into, out, into // 2)) if bilinear else
                            Named(up=nn.ConvTranspose2d(into, into // 2, 2, 2), conv=double(into, out)))
        self.outc = Named(conv=nn.Conv2d(w, classes, 1))

    def forward(self, x):
        beside = [self.inc.double_conv(x)]
        for k in range(1, 5):
            pool, conv = getattr(self, f"down{k}").maxpool_conv
            beside.append(conv.double_conv(pool(beside[-1])))
        x = beside.pop()
        for k in range(1, 5):
            up, skip = getattr(self, f"up{k}"), beside.pop()
            x = up.up(x) if hasattr(up, "up") else F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, (dx // 2, dx - dx // 2, dy // 2, dy - dy // 2))
            x = up.conv.double_conv(torch.cat([skip, x], 1))
        return self.outc.conv(x)


def unet_loss(model, x, labels):
    logits = model(x)
    one = logits.shape[1] == 1
    p = logits.sigmoid() if one else logits.softmax(1)
    target = labels[:, None].to(p.dtype) if one else F.one_hot(labels, p.shape[1]).permute(0, 3, 1, 2).to(p.dtype)
    both, all_ = (p * target).sum((2, 3)), (p + target).sum((2, 3))
    entropy = F.binary_cross_entropy_with_logits(logits, target) if one else F.cross_entropy(logits, labels)
    return entropy + 1 - ((2 * both + 1e-6) / (all_ + 1e-6)).mean()


class VAE(nn.Module):
    def __init__(self, into, hidden, latent):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(into, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, into)

    def forward(self, x, noise):
        h = torch.relu(self.fc1(x))
        mean, log_var = self.fc21(h), self.fc22(h)
        z = mean + noise * torch.exp(0.5 * log_var)
        return torch.sigmoid(self.fc4(torch.relu(self.fc3(z)))), mean, log_var


def vae_loss(model, x, noise):
    y, mean, log_var = model(x, noise)
    return (F.binary_cross_entropy(y, x, reduction="sum") -
            0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())) / len(x)


def dcgan(latent, width, channels, size):
    """(generator, discriminator), the latter without its sigmoid."""
    most, parts = width * size // 8, []
    widths = [latent, *(most >> k for k in range(20) if most >> k >= width)]
    for k, (a, b) in enumerate(zip(widths, widths[1:])):
        parts += [nn.ConvTranspose2d(a, b, 4, 2 if k else 1, 1 if k else 0, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    makes = nn.Sequential(*parts, nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=False), nn.Tanh())
    parts = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)]
    for a in [width << k for k in range(20) if width << k < most]:
        parts += [nn.Conv2d(a, 2 * a, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * a), nn.LeakyReLU(0.2)]
    return Named(main=makes), Named(main=nn.Sequential(*parts, nn.Conv2d(most, 1, 4, 1, 0, bias=False)))


def dcgan_step(g, d, for_g, for_d, images, noise):
    """As the example does it: labels of 1 and 0, and gradients cleared before each."""
    one, zero = torch.ones(len(images), dtype=images.dtype), torch.zeros(len(images), dtype=images.dtype)
    made = g.main(noise)
    for_d.zero_grad()
    wrong = F.binary_cross_entropy_with_logits(d.main(images).flatten(), one) + \
        F.binary_cross_entropy_with_logits(d.main(made.detach()).flatten(), zero)
    wrong.backward()
    for_d.step()
    for_g.zero_grad()
    seen = F.binary_cross_entropy_with_logits(d.main(made).flatten(), one)
    seen.backward()
    for_g.step()
    return wrong, seen


# ---- graphs --------------------------------------------------------------------------------------


class GCN(nn.Module):
    """By the dense matrix D^-1/2 (A + I) D^-1/2."""

    def __init__(self, into, hidden, layers, out):
        super().__init__()
        widths = [into, *[hidden] * (layers - 1), out]
        self.convs = nn.ModuleList(Named(lin=nn.Linear(a, b, bias=False)) for a, b in zip(widths, widths[1:]))
        for conv, width in zip(self.convs, widths[1:]):
            conv.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, edges):
        a = torch.zeros(len(x), len(x), dtype=x.dtype)
        a.index_put_((edges[1], edges[0]), torch.ones(edges.shape[1], dtype=x.dtype), accumulate=True)
        a += torch.diag((a.diagonal() == 0).to(a.dtype))
        root = a.sum(1).rsqrt()
        a = root[:, None] * a * root
        for k, conv in enumerate(self.convs):
            x = a @ conv.lin(x if k == 0 else torch.relu(x)) + conv.bias
        return x


def node_loss(model, x, edges, labels, known):
    return F.cross_entropy(model(x, edges)[known], labels)


# ---- language models -----------------------------------------------------------------------------


class Conv1D(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(into, out) * 0.02), nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, 1), self.weight).view(*x.shape[:2], -1)


class GPT2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.attn = Named(c_attn=Conv1D(width, 3 * width), c_proj=Conv1D(width, width))
        self.mlp = Named(c_fc=Conv1D(width, 4 * width), c_proj=Conv1D(4 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.attn.c_attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(n, t, width))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.transformer = Named(wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(context, width),
                                 h=nn.ModuleList(GPT2Block(width, heads) for _ in range(layers)),
                                 ln_f=nn.LayerNorm(width))
        nn.init.normal_(self.transformer.wte.weight, std=0.02)
        nn.init.normal_(self.transformer.wpe.weight, std=0.01)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids):
        x = self.transformer.wte(ids) + self.transformer.wpe.weight[:ids.shape[1]]
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class LlamaAttention(nn.Module):
    """Each group of queries beside copies of its keys and values."""

    def __init__(self, width, heads, kv_heads, base):
        super().__init__()
        self.size, self.base, self.group = width // heads, base, heads // kv_heads
        for name, out in (("q", width), ("k", self.size * kv_heads), ("v", self.size * kv_heads), ("o", width)):
            self.add_module(f"{name}_proj", nn.Linear(width, out, bias=False))

    def turned(self, x):
        half = self.size // 2
        angle = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype),
                            self.base ** (-torch.arange(half, dtype=x.dtype) / half))
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (getattr(self, f"{name}_proj")(x).view(n, t, -1, self.size).transpose(1, 2) for name in "qkv")
        k, v = (y.repeat_interleave(self.group, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, width))


class LlamaMLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Mixture(nn.Module):
    """Each expert by the tokens that chose it; what was chosen is kept for the loss."""

    def __init__(self, width, hidden, experts, chosen):
        super().__init__()
        self.gate, self.experts, self.chosen = nn.Linear(width, experts, bias=False), nn.Module(), chosen
        self.experts.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * hidden, width) * 0.1)
        self.experts.down_proj = nn.Parameter(torch.randn(experts, width, hidden) * 0.1)

    def forward(self, x):
        flat = x.flatten(0, 1)
        p = self.gate(flat).softmax(-1)
        share, which = p.topk(self.chosen)
        self.route = p, F.one_hot(which, p.shape[-1]).sum(-2).to(p.dtype)
        share, y = share / share.sum(-1, keepdim=True), torch.zeros_like(flat)
        for k, (both, down) in enumerate(zip(self.experts.gate_up_proj, self.experts.down_proj)):
            token, place = torch.where(which == k)
            gate, up = (flat[token] @ both.T).chunk(2, -1)
            y = y.index_add(0, token, (F.silu(gate) * up) @ down.T * share[token, place, None])
        return y.view_as(x)


class Llama(nn.Module):
    """mlp(): what makes the second part of a block."""

    def __init__(self, vocabulary, width, layers, heads, kv_heads, mlp, base=10000.0, eps=1e-5):
        super().__init__()
        self.model = Named(embed_tokens=nn.Embedding(vocabulary, width), layers=nn.ModuleList(
            Named(self_attn=LlamaAttention(width, heads, kv_heads, base), mlp=mlp(),
                  input_layernorm=RMSNorm(width, eps), post_attention_layernorm=RMSNorm(width, eps))
            for _ in range(layers)), norm=RMSNorm(width, eps))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = x + layer.self_attn(layer.input_layernorm(x))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.lm_head(self.model.norm(x))


def unevenness(model):
    """Mixtral's loss of balance: of all layers' tokens together."""
    p, often = (torch.cat(x).mean(0) for x in zip(*(layer.mlp.route for layer in model.model.layers)))
    return len(p) * (p * often).sum()


# ---- diffusion -----------------------------------------------------------------------------------


def norm(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attn = Named(qkv=nn.Linear(width, 3 * width), proj=nn.Linear(width, width))
        self.mlp = Named(fc1=nn.Linear(width, 4 * width), fc2=nn.Linear(4 * width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        beta, gamma, alpha, beta2, gamma2, alpha2 = self.adaLN_modulation(c)[:, None].chunk(6, -1)
        n, t, width = x.shape
        y = self.attn.qkv(norm(x) * (1 + gamma) + beta).reshape(n, t, 3, self.heads, width // self.heads)
        q, k, v = y.permute(2, 0, 3, 1, 4)
        p = (q @ k.mT / (width // self.heads) ** 0.5).softmax(-1)
        x = x + alpha * self.attn.proj((p @ v).transpose(1, 2).flatten(2))
        y = norm(x) * (1 + gamma2) + beta2
        return x + alpha2 * self.mlp.fc2(F.gelu(self.mlp.fc1(y), approximate="tanh"))


class DiT(nn.Module):
    def __init__(self, size, patch, channels, width, layers, heads, classes, out):
        super().__init__()
        self.patch, self.side, self.out = patch, size // patch, out
        self.x_embedder = Named(proj=nn.Conv2d(channels, width, patch, patch))
        self.t_embedder = Named(mlp=nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width)))
        self.y_embedder = Named(embedding_table=nn.Embedding(classes + 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.side ** 2, width), requires_grad=False)
        self.blocks = nn.ModuleList(DiTBlock(width, heads) for _ in range(layers))
        self.final_layer = Named(linear=nn.Linear(width, patch * patch * out),
                                 adaLN_modulation=nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width)))

    def forward(self, x, t, labels):
        w = torch.exp(-torch.arange(128) / 128 * torch.tensor(10000.0).log()).to(x.dtype)
        angles = t[:, None] * w
        c = self.t_embedder.mlp(torch.cat([angles.cos(), angles.sin()], 1)) + self.y_embedder.embedding_table(labels)
        x = self.x_embedder.proj(x).flatten(2).mT + self.pos_embed
        for block in self.blocks:
            x = block(x, c)
        beta, gamma = self.final_layer.adaLN_modulation(c)[:, None].chunk(2, -1)
        x = self.final_layer.linear(norm(x) * (1 + gamma) + beta)
        x = x.unflatten(2, (self.patch, self.patch, self.out)).unflatten(1, (self.side, self.side))
        return torch.einsum("nijabc->nciajb", x).reshape(len(x), self.out, *(2 * [self.side * self.patch]))


def noise_loss(model, x, labels, t, noise):
    a = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)[t][:, None, None, None].to(x.dtype)
    return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t, labels), noise)
