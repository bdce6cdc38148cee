"""vae.py - a variational autoencoder (Kingma and Welling 2014), with the names of the VAE of PyTorch's examples.

    model = VAE(784, hidden=400, latent=20)
    optimizer = quern.optim.Adam(model.parameters(), lr=1e-3)

    @quern.jit
    def step(x):                                                 # [N, ..] of 784 numbers from 0 to 1
        loss = model.loss(x)                                     # by other noise at each call
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    images = model.decode(quern.randn(quern.key(1), (16, 20)))
"""

import quern
from quern import nn
from quern.nn import functional as F
from quern.nn.random import generator


class VAE(nn.Module):
    def __init__(self, into=784, hidden=400, latent=20):
        super().__init__()
        self.fc1 = nn.Linear(into, hidden)
        self.fc21, self.fc22 = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, into)

    def encode(self, x):
        """The mean and the logarithm of the variance of what x may come from."""
        h = F.relu(self.fc1(x.reshape(x.shape[0], -1)))
        return self.fc21(h), self.fc22(h)

    def logits(self, z):
        return self.fc4(F.relu(self.fc3(z)))

    def decode(self, z):
        return self.logits(z).sigmoid()

    def forward(self, x, noise=None):
        """(what is made of x, mean, log variance); noise [N, latent] is normal, 0: the likeliest."""
        mean, log_var = self.encode(x)
        return self.decode(drawn(mean, log_var, noise)), mean, log_var

    def loss(self, x, noise=None):
        """The bound on -log p(x), a mean over the batch: cross entropy and the divergence from a normal latent."""
        x = x.reshape(x.shape[0], -1)
        mean, log_var = self.encode(x)
        logits = self.logits(drawn(mean, log_var, noise))
        far = (log_var.exp() + mean * mean - 1 - log_var).sum() / 2
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + far) / x.shape[0]


def drawn(mean, log_var, noise=None):
    """A latent; noise that is not given is drawn as dropout's is, which nn.manual_seed seeds."""
    noise = quern.randn(generator.draw(), mean.shape) if noise is None else noise
    return mean + noise * (log_var / 2).exp()
