"""FedJAX's federated_averaging, with its way of training one client after another."""
import fedjax
import jax
import jax.numpy as jnp
import jax_models
import numpy as np
import rows
from fedjax.algorithms import fed_avg


def main():
    work, clock, result = rows.asked(), rows.Clock(), None
    images, labels = work.arrays("train")
    test = work.arrays("test") if work.every else None
    data = fedjax.InMemoryFederatedData({b"%05d" % client: {"x": images[share], "y": labels[share]}
                                         for client, share in enumerate(work.shares())})

    def loss(parameters, batch, _):
        return jax_models.losses(work.model, parameters, batch["x"], batch["y"]).mean()

    @jax.jit
    def right(parameters, x, y):
        return (jax_models.scores(work.model, parameters, x).argmax(1) == y).sum()

    algorithm = fed_avg.federated_averaging(jax.grad(loss), fedjax.optimizers.sgd(work.rate), fedjax.optimizers.sgd(1.0),
                                            fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=1))
    state, keys = algorithm.init(jax_models.first(work.model)), jax.random.PRNGKey(1)
    for number, cohort in enumerate(work.cohorts(), 1):
        keys, *of_clients = jax.random.split(keys, work.cohort + 1)
        ids = [b"%05d" % client for client in cohort]
        clients = [(name, data.get_client(name), key) for name, key in zip(ids, of_clients)]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        if work.measured(number):
            parts = zip(np.split(test[0], 10), np.split(test[1], 10))
            result = sum(right(state.params, jnp.asarray(x), jnp.asarray(y)).item() for x, y in parts) / len(test[1])
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
