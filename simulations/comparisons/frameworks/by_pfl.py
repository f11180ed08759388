"""pfl-research's FederatedAveraging in its simulated backend: one process, as without Horovod or the like."""
import logging

import rows
import torch
import torch_models
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional


class Trained(nn.Module):
    """What PyTorchModel asks of a module."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, images):
        return self.layers(images)

    def loss(self, images, labels):
        self.train()
        return functional.cross_entropy(self(images), labels)

    @torch.no_grad()
    def metrics(self, images, labels):
        self.eval()
        return {"accuracy": Weighted((self(images).argmax(1) == labels).sum().item(), len(labels))}


class Rounds(TrainingProcessCallback):
    def __init__(self, work, test):
        self.work, self.test, self.clock, self.result = work, test, rows.Clock(), None

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if self.work.measured(central_iteration + 1):
            self.result = torch_models.accuracy(model.pytorch_model, *self.test)
        self.clock.lap()
        return False, Metrics()


def main():
    logging.disable(logging.WARNING)
    work = rows.asked()
    torch.set_num_threads(rows.cores())
    torch.manual_seed(1)
    images, labels = torch_models.tensors(work, "train")
    shares = torch.from_numpy(work.shares())
    users = FederatedDataset(lambda user: PyTorchTensorDataset((images[shares[user]], labels[shares[user]])),
                             get_user_sampler("random", list(range(work.clients))))
    module = Trained(torch_models.MODELS[work.model]())
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    rounds = Rounds(work, torch_models.tensors(work, "test") if work.every else None)
    # The first round's clients are measured before and after; nobody's again.
    asked = NNAlgorithmParams(central_num_iterations=work.rounds, evaluation_frequency=work.rounds, train_cohort_size=work.cohort, val_cohort_size=0)
    training = NNTrainHyperParams(local_batch_size=work.batch, local_num_epochs=1, local_learning_rate=work.rate)
    FederatedAveraging().run(asked, SimulatedBackend(users, users), model, training, NNEvalHyperParams(local_batch_size=None), [rounds],
                             send_metrics_to_platform=False)
    rounds.clock.tell(rounds.result)


if __name__ == "__main__":
    main()
