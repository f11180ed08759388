"""FedML's FedAvg in one process ("sp"), as its launcher calls it."""
import logging
import types

import rows
import torch
import torch_models
from fedml import mlops
from fedml.simulation.sp.fedavg.fedavg_api import FedAvgAPI
from torch.utils.data import DataLoader, TensorDataset


class Rounds(FedAvgAPI):
    """Nothing is measured on all clients' data; the test set is, when the work says so."""

    def begin(self, work, test):
        self.work, self.test, self.clock, self.number, self.result = work, test, rows.Clock(), 0, None

    def _local_test_on_all_clients(self, round_idx):
        pass

    def told(self):
        self.number += 1
        if self.work.measured(self.number):
            self.result = torch_models.accuracy(self.model_trainer.model, *self.test)
        self.clock.lap()


def main():
    logging.disable(logging.INFO)
    work = rows.asked()
    torch.set_num_threads(rows.cores())
    torch.manual_seed(1)
    images, labels = torch_models.tensors(work, "train")
    loaders = {client: DataLoader(TensorDataset(images[share], labels[share]), batch_size=work.batch, shuffle=True)
               for client, share in enumerate(torch.from_numpy(work.shares()))}
    args = types.SimpleNamespace(client_num_in_total=work.clients, client_num_per_round=work.cohort, comm_round=work.rounds, epochs=1,
                                 batch_size=work.batch, learning_rate=work.rate, client_optimizer="sgd", weight_decay=0.0, dataset="mnist",
                                 federated_optimizer="FedAvg", frequency_of_the_test=work.rounds + 1, enable_wandb=False,
                                 ml_engine="torch", model=work.model)
    counts = dict.fromkeys(loaders, work.examples)
    data = [len(labels), 0, None, None, counts, loaders, loaders, 10]
    api = Rounds(args, torch.device("cpu"), data, torch_models.MODELS[work.model]())
    api.begin(work, torch_models.tensors(work, "test") if work.every else None)
    # Its service in the cloud is told of each round; here the clock is, instead.
    mlops.log_training_status = mlops.log_aggregation_status = mlops.event = lambda *_, **__: None
    mlops.log_training_finished_status = mlops.log_aggregation_finished_status = lambda *_, **__: None
    mlops.log_round_info = lambda _, round_idx: api.told() if round_idx >= 0 else None
    api.train()
    api.clock.tell(api.result)


if __name__ == "__main__":
    main()
