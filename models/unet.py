"""unet.py - U-Net for the classes of pixels (Ronneberger et al. 2015), with the names of milesial's Pytorch-UNet.

    model = UNet(channels=3, classes=2)
    model.load_state_dict(quern.load("unet.safetensors"))
    logits = model.eval()(images)                                # [N, 3, H, W] -> [N, 2, H, W]

    optimizer = quern.optim.Adam(model.train().parameters(), lr=1e-3)

    @quern.jit
    def step(images, labels):                                    # labels [N, H, W]
        loss = model.loss(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

import quern
from quern import nn
from quern.nn import functional as F


class DoubleConv(nn.Module):
    def __init__(self, into, out, between=None):
        super().__init__()
        layers = []
        for a, b in ((into, between or out), (between or out, out)):
            layers += [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.double_conv = nn.Sequential(*layers)

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(into, out))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    """What comes from below, twice as large and padded to the size of what is beside it, behind that."""

    def __init__(self, into, out, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(into, out, into // 2)
        else:
            self.up = nn.ConvTranspose2d(into, into // 2, 2, 2)
            self.conv = DoubleConv(into, out)

    def forward(self, below, beside):
        x = self.up(below)
        dy, dx = (a - b for a, b in zip(beside.shape[2:], x.shape[2:]))
        if dy or dx:
            x = F.pad(x, (dx // 2, dx - dx // 2, dy // 2, dy - dy // 2))
        return self.conv(quern.concat([beside, x], axis=1))


class OutConv(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.conv = nn.Conv2d(into, out, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """Four times half as large and twice as wide, and back. bilinear: resized without weights."""

    def __init__(self, channels=3, classes=2, bilinear=False, width=64):
        super().__init__()
        w, less = width, 2 if bilinear else 1
        self.inc = DoubleConv(channels, w)
        self.down1, self.down2, self.down3 = Down(w, 2 * w), Down(2 * w, 4 * w), Down(4 * w, 8 * w)
        self.down4 = Down(8 * w, 16 * w // less)
        self.up1, self.up2 = Up(16 * w, 8 * w // less, bilinear), Up(8 * w, 4 * w // less, bilinear)
        self.up3, self.up4 = Up(4 * w, 2 * w // less, bilinear), Up(2 * w, w, bilinear)
        self.outc = OutConv(w, classes)

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(a)
        c = self.down2(b)
        d = self.down3(c)
        x = self.up2(self.up1(self.down4(d), d), c)
        return self.outc(self.up4(self.up3(x, b), a))

    def loss(self, x, labels):
        """Cross entropy and 1 - Dice's coefficient, the mean over images and classes; one class: of yes or no."""
        logits = self(x)
        if logits.shape[1] == 1:
            target = labels.reshape(logits.shape).cast(logits.dtype)
            return F.binary_cross_entropy_with_logits(logits, target) + 1 - dice(logits.sigmoid(), target)
        target = quern.moveaxis(quern.one_hot(labels, logits.shape[1], logits.dtype), (-1,), (1,))
        return F.cross_entropy(logits, labels) + 1 - dice(logits.softmax(axis=1), target)


def dice(p, target, eps=1e-6):
    """Twice what two [N, C, H, W] of 0 to 1 have in common over what they have together."""
    both, all_ = (p * target).sum(axis=(2, 3)), (p + target).sum(axis=(2, 3))
    return ((2 * both + eps) / (all_ + eps)).mean()
