"""Flower's simulation: its FedAvg, clients in Ray's actors, one for each core."""
import logging

import flower_clients
import rows
import torch
import torch_models
from flwr.client import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation


def main():
    logging.disable(logging.INFO)
    work, clock, result = rows.asked(), rows.Clock(), []
    torch.set_num_threads(rows.cores())
    torch.manual_seed(1)
    model = torch_models.MODELS[work.model]()
    test = torch_models.tensors(work, "test") if work.every else None

    def evaluate(number, parameters, config):
        if number == 0:
            return None
        if work.measured(number):
            with torch.no_grad():
                for mine, given in zip(model.parameters(), parameters):
                    mine.copy_(torch.from_numpy(given))
            result.append(torch_models.accuracy(model, *test))
        clock.lap()
        return None

    strategy = FedAvg(fraction_fit=work.cohort / work.clients, min_fit_clients=work.cohort, min_available_clients=work.clients,
                      fraction_evaluate=0.0, evaluate_fn=evaluate,
                      initial_parameters=ndarrays_to_parameters([part.detach().numpy() for part in model.parameters()]))
    server = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=work.rounds)))
    name = work.name
    client = ClientApp(client_fn=lambda context: flower_clients.Local(name, int(context.node_config["partition-id"])).to_client())
    run_simulation(server, client, num_supernodes=work.clients, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
    clock.tell(result[-1] if result else None)


if __name__ == "__main__":
    main()
