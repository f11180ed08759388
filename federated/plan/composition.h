// An algorithm's choices for a plan. Algorithms compose it (federated/algorithms); Plan::Build turns it into the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "federated/aggregation/aggregation_spec.h"
#include "federated/plan/flat_names.h"
#include "federated/plan/local_rules.h"
#include "federated/plan/loss_scope.h"
#include "federated/plan/pass.h"
#include "federated/settings/piece.h"

namespace rivulet {

// PassBuilder::batch_size: all of a client's examples, up to a million.
inline constexpr int64_t kWholeBatch = 1 << 20;

// A pass before it is graphs. What it leaves open is the scenario's [client]: the epochs and batches, the optimiser,
// its schedule and clipping, the loss scale.
struct PassBuilder {
  // Instances of the model, the one that is trained first.
  std::vector<ModelInstance> models = {{}};
  // What the optimiser changes: the buffer of one of them, "params" or what the client keeps. "": nothing. Such a pass
  // looks at its data once and in their order, as an evaluation does, and only reports.
  std::string trains = "params";
  // What is differentiated, over what the instances give; null: the model's own training loss.
  std::function<Output(LossScope& f)> loss;
  // 0: the scenario's [client].
  int64_t epochs = 0, batch_size = 0;
  // What the loss of the first instance is declared as; "train_loss" is the history's, and "" keeps a training loss to
  // the client.
  std::string reports = "train_loss";
  // Of a pass that only reports: what the losses of the other instances are declared as, in their order.
  std::vector<std::string> reports_too;
  // What the optimiser takes for the gradient of the training loss, of f.grads(), f.params() and so on; null:
  // f.grads(). An algorithm that adds a term to the loss adds the term's gradient here.
  LocalGradient gradient;
  // Another of `models`, whose own training loss is differentiated by its buffer too: what the gradient reads as
  // "other_grads". "": none is.
  std::string also_by;
  OwnMemory own;  // what that remembers from step to step
  // Once after the last step, before parts are taken: what clients keep from task to task is written here. Null:
  // nothing.
  std::function<void(FlatScope& f)> at_end;
};

// When tasks are drawn, and how late their updates may come. How many make a version is the aggregation's.
struct TaskPolicy {
  // kCommitted: a version's tasks together, once the one before is there, so that nothing is late. kLatest: each as
  // soon as another has ended, from the newest version that there is.
  enum class Base : uint8_t { kCommitted, kLatest } base = Base::kCommitted;
  int64_t in_flight = 1;          // tasks at a time
  int64_t max_staleness = 0;      // versions that an update may be late; 0 under kCommitted
  double staleness_exponent = 0;  // an update τ versions late counts 1 / (1 + τ)^this
};

// Noise in the integer sums of each version: added by the server (federated/privacy/sum_noise.h), by each client to its
// share of the sum (federated/privacy/distributed_noise.h), or by each client so that its update alone is protected
// (federated/mechanisms/discrete_laplace.cc).
struct CentralNoise {
  double multiplier = 0;       // deviation over the clip; 0: none
  double clip = 0;             // largest norm of an update
  bool seeded = false;         // it follows from run.seed: a simulation's
  double sampling_rate = 1;    // of Poisson cohorts; 1: of others
  int64_t bands = 1;           // above 1: the noise of versions is correlated (federated/privacy/correlated_noise.h)
  int64_t separation = 1;      // versions between two of one client's, as its selection keeps them
  double count_deviation = 0;  // of the count that adaptive clipping needs, over its +-1; 0: none
  double claimed = 0;          // what one task spends, as the multiplier of one round: plans say it
  // Of noise by clients, in units of 2^-fraction_bits: the parameter of one client's, and the number of honest clients
  // in the smallest sum that can be revealed; 0: the server adds the noise.
  int64_t contributors = 0;
  double each = 0;
  int fraction_bits = 0;
  // Of noise by clients with adaptive clipping: units in each 1 that is counted, a power of two; 0: nothing is counted.
  int64_t count_units = 0;
  // Of noise by clients that protects each update alone: the scale of its discrete Laplace law and the largest L1 norm
  // of an update, in these units; 0: not so.
  int64_t laplace_scale = 0, clip_units = 0;
  bool any() const { return multiplier > 0; }
  bool by_clients() const { return contributors > 0; }
  bool local() const { return laplace_scale > 0; }
};

struct Composition {
  std::vector<PassBuilder> passes;          // of a training task, in their order
  std::map<std::string, PartSource> parts;  // what a client sends, and where each part lies after the last pass
  std::vector<StateVector> state;           // what a client keeps from task to task
  // What clients read of a version beside its model: of "c" the vector "server/c" that the server optimiser keeps, as
  // "broadcast/c".
  std::vector<std::string> broadcast;
  // The numbers that tasks bring, which clients' graphs read as "numbers/NAME" and their updates declare; and the rule
  // by which the server moves them (federated/numbers), which no plan says. Without names there is none.
  std::vector<std::string> numbers;
  PieceSpec number_rule;
  // Of what passes report, by name, what graphs read as "measured/NAME" from the pass's at_end on; and what graphs
  // write as "declared/NAME" and an update declares: of a training, where it is each task's metric "train/NAME" too.
  std::vector<std::string> measured, declared;
  // The flat variable that is a client's own model, which measuring a version then measures too; "": it has none. Where
  // the model has local variables it is "params", whatever stands here.
  std::string personal;
  std::vector<PassBuilder> adaptation;  // what a client runs before it measures that; nothing of it is kept
  // Updates are sent as multiples of the task's number "clip", of a norm of at most 1, and no fixed clip applies.
  bool sent_in_clips = false;
  AggregationSpec aggregation;        // how updates are summed, with the bounds that the plan states
  std::vector<LocalPass> evaluation;  // of a task that measures a version; empty: the plan has none
  std::vector<PieceSpec> mechanisms;  // what is done to an update before it is encoded
  // What is done to the means before the server takes a step with them (federated/mechanisms/mean_mechanisms.h), and
  // what becomes of them. No plan says it, as clients have nothing to do with it.
  std::vector<PieceSpec> mean_mechanisms;
  CentralNoise noise;  // before them; nor does a plan say it
  PieceSpec server_optimizer = {"sgd"};
  // An algorithm says where tasks start from, the scenario's [server] all else. Nor does a plan say it.
  TaskPolicy policy;
};

}  // namespace rivulet
