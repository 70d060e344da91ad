"""Networks of Millrace's examples in PyTorch. Rectifiers work in place where a gradient does not
need what they overwrite."""

import torchvision
from torch import nn


def lenet():
    """The network of `millrace model lenet`."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def resnet50():
    return torchvision.models.resnet50()


def hep_cnn():
    """The network of examples/hep_cnn."""
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, 128, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                   nn.Dropout(0.5)]
        channels = 128
    return nn.Sequential(*layers, nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 2))


def cosmogan_generator():
    """The generator of examples/cosmogan: maps of 256 x 256 from 64 numbers."""
    layers = [nn.Linear(64, 512 * 16 * 16), nn.Unflatten(1, (512, 16, 16))]
    for channels, made in ((512, 256), (256, 128), (128, 64), (64, 1)):
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
                   nn.ConvTranspose2d(channels, made, 5, stride=2, padding=2, output_padding=1)]
    return nn.Sequential(*layers, nn.Tanh())


def cosmogan_discriminator():
    """The discriminator of examples/cosmogan."""
    layers = [nn.Conv2d(1, 64, 5, stride=2, padding=2), nn.LeakyReLU(0.2, inplace=True)]
    for channels, made in ((64, 128), (128, 256), (256, 512)):
        layers += [nn.Conv2d(channels, made, 5, stride=2, padding=2), nn.BatchNorm2d(made),
                   nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 16 * 16, 1))
