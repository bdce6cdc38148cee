"""gan.py - a generator of images and a discriminator (Radford et al. 2016), with the names of PyTorch's dcgan example.

    generator, discriminator = Generator(), Discriminator()      # of [N, 3, 64, 64] in -1 to 1
    optimizers = [quern.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (generator, discriminator)]

    @quern.jit
    def step(images, noise):                                     # noise: quern.randn(key, (N, 100, 1, 1))
        return train(generator, discriminator, *optimizers, images, noise)

    loss_of_discriminator, loss_of_generator = step(images, noise)
"""

from quern import nn
from quern.nn import functional as F


def started(model):
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(m.weight, std=0.02)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.weight, mean=1.0, std=0.02)


class Generator(nn.Module):
    """Noise [N, latent, 1, 1] to images of size 8, 16, 32, ..; the widest of the layers has size / 8 times `width`."""

    def __init__(self, latent=100, width=64, channels=3, size=64):
        super().__init__()
        into, out = latent, width * size // 8
        layers = [nn.ConvTranspose2d(into, out, 4, 1, 0, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        while out > width:
            into, out = out, out // 2
            layers += [nn.ConvTranspose2d(into, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        layers += [nn.ConvTranspose2d(out, channels, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)
        started(self)

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    """Images to logits [N] of whether they are real; the example has their sigmoid, which has no name of its own."""

    def __init__(self, width=64, channels=3, size=64):
        super().__init__()
        layers, out = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)], width
        while out < width * size // 8:
            into, out = out, 2 * out
            layers += [nn.Conv2d(into, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
        layers.append(nn.Conv2d(out, 1, 4, 1, 0, bias=False))
        self.main = nn.Sequential(*layers)
        started(self)

    def forward(self, images):
        return self.main(images).reshape(-1)


def discriminator_loss(discriminator, real, made):
    """-log p(real) - log(1 - p(made)); the batches apart, for each has statistics of its own."""
    return F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(made)).mean()


def generator_loss(discriminator, made):
    """-log p(made)."""
    return F.softplus(-discriminator(made)).mean()


def train(generator, discriminator, for_generator, for_discriminator, images, noise):
    """A step of each optimizer, of the discriminator first: both losses. Gradients are left at neither."""
    made = generator(noise)
    wrong = discriminator_loss(discriminator, images, made.detach())
    wrong.backward()
    for_discriminator.step()
    seen = generator_loss(discriminator, made)
    seen.backward()
    for_generator.step()
    for_generator.zero_grad()
    for_discriminator.zero_grad()
    return wrong, seen
