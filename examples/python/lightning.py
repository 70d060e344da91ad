"""Lightning, stopped inside of an epoch and resumed: the loader's state is in its checkpoint.

    python lightning.py build/fashion_mnist
"""
import sys
import tempfile

import pytorch_lightning as pl
import torch
from torch import nn

import millrace as mr


class Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.05, momentum=0.9)


def make_loader(folder: str) -> mr.torch.TorchLoader:
    plan = (mr.tfrecord(f"{folder}/train*.tfrecord").global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).normalize(mean=72.94, stddev=90.02).resize(28, 28)
            .batch(512).options(seed=1))
    return plan.torch(("image", "label"))


def train(folder: str, steps: int, resume: str | None = None, save: str | None = None) -> Net:
    net = Net()
    trainer = pl.Trainer(max_steps=steps, accelerator="cpu", logger=False,
                         enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False)
    trainer.fit(net, make_loader(folder), ckpt_path=resume)
    if save:
        trainer.save_checkpoint(save)
    return net


def main(folder: str) -> None:
    whole = train(folder, 150)
    with tempfile.TemporaryDirectory() as work:
        checkpoint = f"{work}/half.ckpt"
        train(folder, 70, save=checkpoint)
        resumed = train(folder, 150, resume=checkpoint)
    assert all(torch.equal(*pair) for pair in zip(whole.parameters(), resumed.parameters()))
    print("resumed at step 70 of 150: the weights are equal to the bit")


if __name__ == "__main__":
    main(sys.argv[1])
