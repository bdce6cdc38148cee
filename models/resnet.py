"""resnet.py - residual networks for images (He et al. 2016), with the names of torchvision's state dicts.

    model = resnet18()
    model.load_state_dict(quern.load("resnet18.safetensors"))
    logits = model.eval()(images)                                # [N, 3, H, W] -> [N, 1000]

    optimizer = quern.optim.SGD(model.train().parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    @quern.jit
    def step(images, labels):
        loss = model.loss(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

from quern import nn
from quern.nn import functional as F


def conv3x3(into, out, stride=1):
    return nn.Conv2d(into, out, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions, of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, into, width, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(into, width, stride), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.conv2, self.bn2 = conv3x3(width, width), nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Three convolutions, of ResNet-50 and deeper; the stride is of the middle one."""

    expansion = 4

    def __init__(self, into, width, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu, self.downsample = nn.ReLU(), downsample

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, layers, num_classes=1000):
        super().__init__()
        self.inplanes = 64
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        for k, (width, n) in enumerate(zip((64, 128, 256, 512), layers)):
            setattr(self, f"layer{k + 1}", self.stage(block, width, n, 1 if k == 0 else 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def stage(self, block, width, n, stride):
        out, downsample = width * block.expansion, None
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        blocks = [block(self.inplanes, width, stride, downsample)]
        self.inplanes = out
        return nn.Sequential(*blocks, *(block(out, width) for _ in range(n - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))

    def loss(self, x, labels):
        return F.cross_entropy(self(x), labels)


def resnet18(**given):
    return ResNet(BasicBlock, (2, 2, 2, 2), **given)


def resnet50(**given):
    return ResNet(Bottleneck, (3, 4, 6, 3), **given)
