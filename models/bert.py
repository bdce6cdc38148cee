"""bert.py - BERT (Devlin et al. 2019), with the names of transformers' BertModel.

    model = Bert(vocabulary=30522, width=768, layers=12, heads=12)
    model.load_state_dict(quern.load("model.safetensors"), strict=False)
    hidden, pooled = model.eval()(ids, mask)                     # [N, T] -> [N, T, width], [N, width]
"""

import quern
from quern import nn
from quern.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, kinds, width, dropout, eps):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(context, width)
        self.token_type_embeddings = nn.Embedding(kinds, width)
        self.LayerNorm, self.dropout = nn.LayerNorm(width, eps=eps), nn.Dropout(dropout)

    def forward(self, ids, kinds):
        x = self.word_embeddings(ids) + self.position_embeddings(quern.arange(ids.shape[1]))
        return self.dropout(self.LayerNorm(x + self.token_type_embeddings(kinds)))


class SelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, seen):
        n, t, width = x.shape
        q, k, v = (f(x).reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, seen, self.p if self.training else 0.0)
        return y.transpose(1, 2).reshape(n, t, width)


class Output(nn.Module):
    """A linear map added to what came before, and a norm."""

    def __init__(self, into, width, dropout, eps):
        super().__init__()
        self.dense, self.dropout = nn.Linear(into, width), nn.Dropout(dropout)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)

    def forward(self, y, x):
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, dropout, eps):
        super().__init__()
        self.attention = nn.Module()
        self.attention.self = SelfAttention(width, heads, dropout)
        self.attention.output = Output(width, width, dropout, eps)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(width, hidden)
        self.output = Output(hidden, width, dropout, eps)

    def forward(self, x, seen):
        x = self.attention.output(self.attention.self(x, seen), x)
        return self.output(F.gelu(self.intermediate.dense(x)), x)


class Bert(nn.Module):
    def __init__(self, vocabulary=30522, width=768, layers=12, heads=12, hidden=None, context=512, kinds=2,
                 dropout=0.1, eps=1e-12):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, context, kinds, width, dropout, eps)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(Layer(width, heads, hidden or 4 * width, dropout, eps)
                                           for _ in range(layers))
        self.pooler = nn.Module()
        self.pooler.dense = nn.Linear(width, width)

    def forward(self, ids, mask=None, kinds=None):
        """mask [N, T]: 1 where there is text."""
        seen = None if mask is None else (mask != 0).reshape(mask.shape[0], 1, 1, -1)
        x = self.embeddings(ids, quern.zeros_like(ids) if kinds is None else kinds)
        for layer in self.encoder.layer:
            x = layer(x, seen)
        return x, self.pooler.dense(x[:, 0]).tanh()

    def load_state_dict(self, state_dict, strict=True):
        """Also by the names of models that have a BertModel as `bert`, and by older ones of norms."""
        if any(name.startswith("bert.") for name in state_dict):
            state_dict = {name.removeprefix("bert."): x for name, x in state_dict.items()}
        for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
            state_dict = {name.replace(old, new): x for name, x in state_dict.items()}
        if state_dict and not state_dict.keys() & self.state_dict().keys():
            raise RuntimeError(f"Bert: no name of a state fits: {', '.join(list(state_dict)[:4])} ..")
        return super().load_state_dict(state_dict, strict)
