// Synchronous training by several workers on shared variables, with backup workers: TensorFlow's SyncReplicasOptimizer,
// but for its tokens.
//
//   worker i                                              chief
//     token, current ← Run(tokens[i], global_steps[i])      Run(start)     once, after `init` or a restore
//     token < current: take the next token                  Run(update)    a step: waits for `to_aggregate` gradients,
//     Run(apply), fed local_step = token                                   applies their mean, gives tokens
//     token OUT_OF_RANGE: the training is over              Run(close)     at the end
//
// A token is the number of a step. A worker that takes one computes its gradients with the variables as they are, and
// hands them over with that number. Gradients of a step that is over are dropped. The chief may be a worker too, with a
// second thread.
//
// Each worker has a queue that holds one token. A slow worker finds the token of an old step there, skips it, and gets
// the next one. TensorFlow's workers share one queue, and a fast one takes the slow one's token too. It computes a
// second gradient of a step that is nearly over, and comes late to the next: with one of three workers absent, steps
// took a third longer.
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
  int to_aggregate = 1;  // N: gradients of a step
  int replicas = 1;      // N + b: workers, counted from 0
};

// Names of the nodes for the runs above.
struct SyncReplicasNodes {
  // Fetches of each worker, int64 scalars; the step is read behind the token.
  std::vector<std::string> tokens, global_steps;
  std::string local_step;  // a feed of `apply`, an int64 scalar
  std::string apply;       // target of a worker, with the feeds of its gradients
  std::string start, update, close;
};

// Adds the nodes. Each variable's accumulator is on its device, and the queues of tokens on that of `global_step`, the
// handle of an int64 scalar variable; all workers name them alike when their graphs are built alike. INVALID_ARGUMENT:
// to_aggregate above replicas or below 1, another global_step. Errors of ApplyGradients.
StatusOr<SyncReplicasNodes> ApplyGradientsInSync(const Scope& scope, const OptimizerSpec& spec,
                                                 std::span<const Output> variables, std::span<const Output> gradients,
                                                 Output global_step, const SyncReplicas& replicas);

}  // namespace rivulet
