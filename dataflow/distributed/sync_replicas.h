// Synchronous training by several workers on shared variables, with backup workers: TensorFlow's SyncReplicasOptimizer
// with other token queues.
//
//   worker i                                              chief
//     token, current ← Run(tokens[i], global_steps[i])      Run(start)     once, after `init` or a restore
//     token < current: take the next token                  Run(update)    a step: waits for `to_aggregate` gradients,
//     Run(apply), fed local_step = token                                   applies their mean, gives tokens
//     token OUT_OF_RANGE: the training is over              Run(close)     at the end
//
// A token is the number of a step. A worker that takes one computes gradients
// with the current variables and sends them with that number. Gradients of a
// past step are dropped. The chief may also be a worker, with a second thread.
//
// Each worker has a queue for one token. A slow worker finds the token of an old step there, skips it, and gets the
// next one. TensorFlow's workers share one queue, and a fast worker also takes a slow one's token. It then computes a
// second gradient of a step that is nearly over, and is late for the next: with one of three workers absent, steps took
// a third longer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/optimizer.h"

namespace rivulet {

struct SyncReplicas {
  int to_aggregate = 1;  // N: gradients per step
  int replicas = 1;      // N + b: workers, numbered from 0
};

// Names of the nodes for the calls shown above.
struct SyncReplicasNodes {
  // Fetches of each worker, int64 scalars; the step is read after the token.
  std::vector<std::string> tokens, global_steps;
  std::string local_step;  // a feed of `apply`, an int64 scalar
  std::string apply;       // target of a worker, with feeds for its gradients
  std::string start, update, close;
};

// Adds the nodes. Each variable's accumulator is on its device, and the token queues on the device of `global_step`,
// the handle of an int64 scalar variable. All workers get equal names if they build their graphs alike.
// INVALID_ARGUMENT: to_aggregate above replicas or below 1, a wrong global_step. Errors of ApplyGradients.
StatusOr<SyncReplicasNodes> ApplyGradientsInSync(const Scope& scope, const OptimizerSpec& spec,
                                                 std::span<const Output> variables, std::span<const Output> gradients,
                                                 Output global_step, const SyncReplicas& replicas);

}  // namespace rivulet
