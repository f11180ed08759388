"""FedLab's synchronous server and serial trainer, in one process (its `StandalonePipeline`)."""
import logging

import rows
import torch
import torch_models
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from torch.utils.data import DataLoader, TensorDataset


class Shares:
    """What FedLab asks of a data set of all clients."""

    def __init__(self, images, labels, shares):
        self.images, self.labels, self.shares = images, labels, shares

    def get_dataloader(self, client, batch_size):
        share = self.shares[client]
        return DataLoader(TensorDataset(self.images[share], self.labels[share]), batch_size=batch_size, shuffle=True)


class Trainer(SGDSerialClientTrainer):
    def train(self, model_parameters, train_loader):
        self.set_model(model_parameters)
        self._model.train()
        for _ in range(self.epochs):
            for images, labels in train_loader:
                loss = self.criterion(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return [self.model_parameters]


def main():
    logging.disable(logging.INFO)
    work, clock, result = rows.asked(), rows.Clock(), None
    torch.set_num_threads(rows.cores())
    torch.manual_seed(1)
    test = torch_models.tensors(work, "test") if work.every else None
    model = torch_models.MODELS[work.model]()
    trainer = Trainer(model, work.clients)
    trainer.setup_dataset(Shares(*torch_models.tensors(work, "train"), torch.from_numpy(work.shares())))
    trainer.setup_optim(1, work.batch, work.rate)
    handler = SyncServerHandler(model, work.rounds, work.cohort / work.clients)
    handler.num_clients = work.clients
    number = 0
    while not handler.if_stop:  # as StandalonePipeline.main
        number += 1
        sampled, broadcast = handler.sample_clients(), handler.downlink_package
        trainer.local_process(broadcast, sampled)
        for package in trainer.uplink_package:
            handler.load(package)
        if work.measured(number):
            result = torch_models.accuracy(handler.model, *test)
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
