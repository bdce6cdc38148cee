"""gpt2.py - GPT-2 (Radford et al. 2019), with the names of transformers' GPT2LMHeadModel.

    model = GPT2(vocabulary=50257, context=1024, layers=12, heads=12, width=768)
    model.load_state_dict(quern.load("model.safetensors"), strict=False)
    logits = model.eval()(ids)                                   # [N, T] -> [N, T, vocabulary]

    optimizer = quern.optim.AdamW(model.train().parameters(), lr=3e-4)

    @quern.jit
    def step(ids):
        loss = model.loss(ids)                                   # each told by those before it
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

import quern
from quern import nn
from quern.nn import functional as F


class Conv1D(nn.Module):
    """A linear map whose weight is [in, out], as GPT-2's checkpoints have it."""

    def __init__(self, into, out):
        super().__init__()
        self.weight = nn.init.normal_(nn.Parameter(quern.zeros((into, out))), std=0.02)
        self.bias = nn.Parameter(quern.zeros(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
                   for part in quern.chunk(self.c_attn(x), 3, axis=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(n, t, width)))


class MLP(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)
        self.act, self.dropout = nn.GELU("tanh"), nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width, dropout):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.01)

    def forward(self, ids):
        x = self.drop(self.wte(ids) + self.wpe(quern.arange(ids.shape[1])))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class GPT2(nn.Module):
    """The head's weight is that of the embeddings."""

    def __init__(self, vocabulary=50257, context=1024, layers=12, heads=12, width=768, dropout=0.1):
        super().__init__()
        self.transformer = Transformer(vocabulary, context, layers, heads, width, dropout)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids):
        return self.lm_head(self.transformer(ids))

    def loss(self, ids):
        logits = self(ids)[:, :-1]
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))

    def load_state_dict(self, state_dict, strict=True):
        """Also by the names of GPT2Model, the files of which have no `transformer.` before them."""
        if not any(name.startswith("transformer.") for name in state_dict):
            state_dict = {name if name.startswith("lm_head.") else f"transformer.{name}": x
                          for name, x in state_dict.items()}
        if state_dict and not state_dict.keys() & self.state_dict().keys():
            raise RuntimeError(f"GPT2: no name of a state fits: {', '.join(list(state_dict)[:4])} ..")
        return super().load_state_dict(state_dict, strict)
