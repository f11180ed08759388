"""Flower's SecAgg+ (its legacy workflow) in one process: beside `secure/client` and `secure/server`, and beside a secure round of ours.

    flower_secagg_peer.py [CLIENTS [PARAMETERS [SHARES]]]    [50 1663370 CLIENTS]

Prints a line of JSON: the processor seconds of one round's protocol, those of the clients and of the server, and of the same round
without it. Both halves are Flower's own (`SecAggPlusWorkflow`, `secaggplus_mod`); messages pass as objects, so nothing is
serialised or sent. Clients train nothing. SHARES is the number of holders of each secret, the client itself among them; the threshold is two
thirds of it. Needs flwr.
"""
import copy
import json
import logging
import sys
import time

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.supercore.task_identity import TaskIdentity
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

CLIPPING_RANGE, EXAMPLES = 8.0, 10


def update_of(node, parameters):
    return np.random.default_rng(node).uniform(-1, 1, parameters).astype(np.float32)


class Proxy(ClientProxy):
    """A client by number: all that the workflow asks of it."""

    def __init__(self, node):
        super().__init__(str(node))
        self.node_id = node

    def get_properties(self, *_): raise NotImplementedError
    def get_parameters(self, *_): raise NotImplementedError
    def fit(self, *_): raise NotImplementedError
    def evaluate(self, *_): raise NotImplementedError
    def reconnect(self, *_): raise NotImplementedError


class InProcessGrid:
    """The clients' halves, called in turn."""

    def __init__(self, updates):
        self.updates = updates
        self.contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in updates}
        self.client_seconds = self.copy_seconds = 0.0

    def answer(self, message):
        node = message.metadata.dst_node_id

        def fit(asked, _):
            result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([self.updates[node]]), EXAMPLES, {})
            return Message(compat.fitres_to_recorddict(result, False), reply_to=asked)

        return secaggplus_mod(message, self.contexts[node], fit)

    def send_and_receive(self, messages, timeout=None):
        del timeout
        begin = time.process_time()
        for message in messages:
            message.content = copy.deepcopy(message.content)  # halves change what they are given; a network would copy it too
        self.copy_seconds += time.process_time() - begin
        begin = time.process_time()
        replies = [self.answer(message) for message in messages]
        self.client_seconds += time.process_time() - begin
        return replies


def main():
    clients, parameters = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 50), (2, 1_663_370)))
    shares = int(sys.argv[3]) if len(sys.argv) > 3 else clients
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 0  # as its own runtime sets them
    updates = {node: update_of(node, parameters) for node in range(1, clients + 1)}
    manager = SimpleClientManager()
    for node in updates:
        manager.register(Proxy(node))
    strategy = FedAvg(fraction_fit=1.0, min_fit_clients=clients, min_available_clients=clients)
    context = LegacyContext(Context(1, 0, {}, RecordDict(), {}), ServerConfig(num_rounds=1), strategy, manager)
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(
        ndarrays_to_parameters([np.zeros(parameters, np.float32)]), True)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    grid = InProcessGrid(updates)
    begin = time.process_time()
    SecAggPlusWorkflow(shares, round(shares * 2 / 3), clipping_range=CLIPPING_RANGE)(grid, context)
    seconds = time.process_time() - begin - grid.copy_seconds
    mean, = parameters_to_ndarrays(compat.arrayrecord_to_parameters(context.state.array_records[MAIN_PARAMS_RECORD], True))

    begin = time.process_time()
    results = [(Proxy(node), FitRes(Status(Code.OK, ""), ndarrays_to_parameters([update]), EXAMPLES, {}))
               for node, update in updates.items()]
    plain, _ = strategy.aggregate_fit(1, results, [])
    plain_seconds = time.process_time() - begin
    wrong = float(np.abs(mean - parameters_to_ndarrays(plain)[0]).max())
    if wrong > 1e-3:  # its quantisation
        sys.exit(f"the sum is off by {wrong}")
    print(json.dumps({"clients": clients, "parameters": parameters, "shares": shares, "seconds": round(seconds, 2),
                      "client_seconds": round(grid.client_seconds, 2), "server_seconds": round(seconds - grid.client_seconds, 2),
                      "plain_seconds": round(plain_seconds, 3), "largest_error": wrong}))


main()
