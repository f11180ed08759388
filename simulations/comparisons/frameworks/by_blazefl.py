"""BlazeFL's process pool, a process for each core, updates in shared memory; averaging is its user's own."""
import functools
import os

import rows
import torch
import torch_models
from blazefl.core import IPCMode, ProcessPoolClientTrainer, SHMHandle


class Update:
    def __init__(self, cid, weights):
        self.cid, self.weights = cid, weights


@functools.cache
def held(name):
    """Of a process of the pool: its model, and the data, once."""
    torch.set_num_threads(1)
    work = rows.WORKS[name]
    return torch_models.MODELS[work.model](), *torch_models.tensors(work, "train"), work.shares()


def worker(config, payload, device, stop_event, *, shm_buffer=None):
    name, client = config
    model, images, labels, shares = held(name)
    own, share = list(model.parameters()), shares[client]
    with torch.no_grad():
        torch._foreach_copy_(own, list(payload))
    torch_models.train(model, own, images[share], labels[share], rows.WORKS[name])
    for room, trained in zip(shm_buffer.weights, own):
        room.copy_(trained.detach())
    return Update(client, [SHMHandle() for _ in own])


class Trainer(ProcessPoolClientTrainer):
    num_parallels, device, device_count, ipc_mode = rows.cores(), "cpu", 0, IPCMode.SHARED_MEMORY
    worker = staticmethod(worker)

    def __init__(self, name, parts):
        self.name, self.parts, self.cache = name, parts, []
        self.stop_event = torch.multiprocessing.Manager().Event()

    def get_client_config(self, cid):
        return self.name, cid

    def prepare_uplink_package_buffer(self):
        return Update(0, [torch.zeros_like(part) for part in self.parts])

    def uplink_package(self):
        package, self.cache = self.cache, []
        return package


def main():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.multiprocessing.set_start_method("fork")
    work, clock, result = rows.asked(), rows.Clock(), None
    torch.set_num_threads(1)  # a forked process cannot use its parent's threads
    torch.manual_seed(1)
    test = torch_models.tensors(work, "test") if work.every else None
    model = torch_models.MODELS[work.model]()
    weights = [part.detach().clone() for part in model.parameters()]
    trainer = Trainer(work.name, weights)
    for number, cohort in enumerate(work.cohorts(), 1):
        trainer.local_process([part.clone() for part in weights], cohort.tolist())
        updates = trainer.uplink_package()
        weights = [sum(update.weights[part] for update in updates) / len(updates) for part in range(len(weights))]
        if work.measured(number):
            with torch.no_grad():
                torch._foreach_copy_(list(model.parameters()), weights)
            result = torch_models.accuracy(model, *test)
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
