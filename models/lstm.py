"""lstm.py - a language model of an LSTM (Hochreiter and Schmidhuber 1997), with the names of the RNNModel of PyTorch's
example word_language_model.

    model = LSTM(vocabulary=33278, width=200, hidden=200, layers=2)
    optimizer = quern.optim.Adam(model.parameters(), lr=1e-3)

    @quern.jit
    def step(ids):                                               # [N, T + 1]: each is told by those before it
        loss = model.loss(ids)
        loss.backward()
        quern.optim.clip_grad_norm_(list(model.parameters()), 0.25)
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

from quern import nn
from quern.nn import functional as F


class LSTM(nn.Module):
    """tied: the head's weight is that of the embeddings, which are then as wide as the states."""

    def __init__(self, vocabulary=33278, width=200, hidden=200, layers=2, dropout=0.2, tied=False):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(dropout), nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, hidden, layers, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)
        for weight in (self.encoder.weight, self.decoder.weight):
            nn.init.uniform_(weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, ids, state=None):
        """ids [N, T] to logits [N, T, vocabulary] and the state (h, c), each [layers, N, hidden], for what follows."""
        x, state = self.rnn(self.drop(self.encoder(ids)), state)
        return self.decoder(self.drop(x)), state

    def loss(self, ids, state=None):
        logits, _ = self(ids[:, :-1], state)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
