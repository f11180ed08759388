// An algorithm's choices for a plan. Algorithms compose it (federated/algorithms); Plan::Build converts it to a plan.
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

// Value of PassBuilder::batch_size for all of a client's examples, up to a million.
inline constexpr int64_t kWholeBatch = 1 << 20;

// A pass before it becomes graphs. The scenario's [client] sets the rest: epochs and batches, the optimiser with its
// schedule and clipping, and the loss scale.
struct PassBuilder {
  // Instances of the model; the trained one is first.
  std::vector<ModelInstance> models = {{}};
  // The buffer that the optimiser changes, that of one instance: "params" or a client's state. "": none. Such a pass
  // reads its data once, in order, as an evaluation does, and only reports.
  std::string trains = "params";
  // The differentiated loss, from the instances' outputs; null: the model's own training loss.
  std::function<Output(LossScope& f)> loss;
  // 0: as in the scenario's [client].
  int64_t epochs = 0, batch_size = 0;
  // Name under which the first instance's loss is declared. The history reads "train_loss"; "": a training loss is not
  // sent.
  std::string reports = "train_loss";
  // For a pass that only reports: names for the losses of the other instances, in their order.
  std::vector<std::string> reports_too;
  // The gradient for the optimiser, computed from f.grads(), f.params() and so on; null: f.grads(). An algorithm that
  // adds a term to the loss adds the term's gradient here.
  LocalGradient gradient;
  // Another of `models` whose training loss is also differentiated, by its own buffer; the gradient reads the result as
  // "other_grads". "": none.
  std::string also_by;
  OwnMemory own;  // memory of `gradient` between steps
  // Runs once after the last step, before parts are read; it writes the state that clients keep from task to task.
  // Null: none.
  std::function<void(FlatScope& f)> at_end;
};

// Start of tasks, and maximum staleness of updates. The aggregation defines how many updates make a version.
struct TaskPolicy {
  // kCommitted: starts all tasks of a version together, once the previous version exists, so no update is stale.
  // kLatest: starts each task when another ends, from the newest version.
  enum class Base : uint8_t { kCommitted, kLatest } base = Base::kCommitted;
  int64_t in_flight = 1;          // concurrent tasks
  int64_t max_staleness = 0;      // limit of an update's staleness, in versions; 0 with kCommitted
  double staleness_exponent = 0;  // an update τ versions late has the weight 1 / (1 + τ)^this
};

// Noise in the integer sums of each version: added by the server (federated/privacy/sum_noise.h), by each client to its
// share of the sum (federated/privacy/distributed_noise.h), or by each client so that its update alone is protected
// (federated/mechanisms/discrete_laplace.cc).
struct CentralNoise {
  double multiplier = 0;       // deviation over the clip; 0: none
  double clip = 0;             // largest norm of an update
  bool seeded = false;         // noise depends on run.seed: simulations only
  double sampling_rate = 1;    // of Poisson cohorts; 1 for others
  int64_t bands = 1;           // above 1: the noise of versions is correlated (federated/privacy/correlated_noise.h)
  int64_t separation = 1;      // minimum versions between two tasks of one client, ensured by the selection
  double count_deviation = 0;  // of the noise in adaptive clipping's count, per +-1; 0: none
  double claimed = 0;          // privacy cost of one task, as one round's multiplier; stated in plans
  // For noise by clients, in units of 2^-fraction_bits: the parameter of one client's noise, and the number of honest
  // clients in the smallest sum that can be revealed; 0: the server adds the noise.
  int64_t contributors = 0;
  double each = 0;
  int fraction_bits = 0;
  // For noise by clients with adaptive clipping: units per counted 1, a power of two; 0: nothing is counted.
  int64_t count_units = 0;
  // For noise that protects each update alone: the scale of its discrete Laplace law and the largest L1 norm of an
  // update, in these units; 0: no such noise.
  int64_t laplace_scale = 0, clip_units = 0;
  bool any() const { return multiplier > 0; }
  bool by_clients() const { return contributors > 0; }
  bool local() const { return laplace_scale > 0; }
};

struct Composition {
  std::vector<PassBuilder> passes;          // of a training task, in order
  std::map<std::string, PartSource> parts;  // parts of an update, and the source of each after the last pass
  std::vector<StateVector> state;           // state of a client between tasks
  // Server vectors that clients read besides a version's model: for "c", the vector "server/c" of the server optimiser
  // is available as "broadcast/c".
  std::vector<std::string> broadcast;
  // Numbers sent with tasks, which clients' graphs read as "numbers/NAME" and updates declare; and the server's rule
  // that updates them (federated/numbers), which plans omit. No rule without names.
  std::vector<std::string> numbers;
  PieceSpec number_rule;
  // Reported scalars that graphs read as "measured/NAME" from the pass's at_end on; and names "declared/NAME" that
  // graphs write and updates declare: in training each is also the task's metric "train/NAME".
  std::vector<std::string> measured, declared;
  // The flat variable with a client's personal model, which evaluations also measure; "": none. If the model has local
  // variables, it is always "params".
  std::string personal;
  std::vector<PassBuilder> adaptation;  // passes before measuring a personal model; their result is discarded
  // Updates are sent as multiples of the task's number "clip", with a norm of at most 1, and no fixed clip applies.
  bool sent_in_clips = false;
  AggregationSpec aggregation;        // summation of updates, with the plan's bounds
  std::vector<LocalPass> evaluation;  // passes of an evaluation task; empty: the plan has none
  std::vector<PieceSpec> mechanisms;  // applied to an update before encoding
  // Applied to the means before the server's step (federated/mechanisms/mean_mechanisms.h), with the server optimiser.
  // Plans omit both, because clients do not need them.
  std::vector<PieceSpec> mean_mechanisms;
  CentralNoise noise;  // added before these; not in plans either
  PieceSpec server_optimizer = {"sgd"};
  // An algorithm sets the base, the scenario's [server] the rest. Not in plans either.
  TaskPolicy policy;
};

}  // namespace rivulet
