"""A round as one compiled program of JAX: a scan over its clients, and in it one over a client's batches."""
import jax
import jax.numpy as jnp
import jax_models
import numpy as np
import rows


def main():
    work, clock, result = rows.asked(), rows.Clock(), None
    images, labels = (jnp.asarray(part) for part in work.arrays("train"))
    test = [jnp.asarray(part) for part in work.arrays("test")] if work.every else None
    shares, draws = work.shares(), np.random.default_rng(3)

    def step(parameters, batch):
        gradients = jax.grad(lambda p: jax_models.losses(work.model, p, images[batch], labels[batch]).mean())(parameters)
        return [p - work.rate * g for p, g in zip(parameters, gradients)], None

    @jax.jit
    def round_(parameters, cohort):  # [cohort, batches, batch]
        def add(total, batches):
            trained, _ = jax.lax.scan(step, parameters, batches)
            return [t + p for t, p in zip(total, trained)], None

        total, _ = jax.lax.scan(add, [jnp.zeros_like(p) for p in parameters], cohort)
        return [part / len(cohort) for part in total]

    @jax.jit
    def accuracy(parameters):
        parts = [part.reshape(-1, 100, *part.shape[1:]) for part in test]
        right = jax.lax.map(lambda part: (jax_models.scores(work.model, parameters, part[0]).argmax(1) == part[1]).mean(), parts)
        return right.mean()

    model = jax_models.first(work.model)
    for number, cohort in enumerate(work.cohorts(), 1):
        batches = draws.permuted(shares[cohort], axis=1).reshape(work.cohort, -1, work.batch)
        model = jax.block_until_ready(round_(model, jnp.asarray(batches)))
        if work.measured(number):
            result = accuracy(model).item()
        clock.lap()
    clock.tell(result)


if __name__ == "__main__":
    main()
