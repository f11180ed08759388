// Algorithms by name. An algorithm is one file of this folder: its paper in the comment, its options as a table of
// settings, and a function that composes a plan. A scenario's [algorithm] has the name and the options. Clients know no
// algorithm, only the plan.
//
// Reading is thread-safe once main has begun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "federated/plan/composition.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/layout.h"

namespace rivulet {

// What an algorithm is composed for. `settings` has the algorithm's own options, checked and completed.
struct AlgorithmContext {
  const Scenario& scenario;
  const ModelLayout& layout;
  const Settings& settings;
};

struct Algorithm {
  std::string name;
  std::string paper;  // "McMahan et al. 2017, arXiv:1602.05629, algorithm 1"
  std::string doc;    // what it does, in a sentence or two
  std::vector<Setting> settings;
  // INVALID_ARGUMENT: a scenario that it cannot do, naming the key.
  StatusOr<Composition> (*build)(const AlgorithmContext& context) = nullptr;
  std::string equations;  // as the reference shows them, a line each
  // Whether it reads the number of all clients, data.partition.clients. Whoever builds the plan counts them where the
  // data tells (setup/run_setup.h).
  bool counts_clients = false;
};

// Registers the algorithm's settings too, as the table ("algorithm", name). A check fails where two have one name.
struct AlgorithmRegistration {
  explicit AlgorithmRegistration(Algorithm algorithm);
};
#define RIVULET_ALGORITHM(variable, ...) \
  [[maybe_unused]] static const ::rivulet::AlgorithmRegistration variable(::rivulet::Algorithm{__VA_ARGS__})

// NOT_FOUND names the nearest.
StatusOr<const Algorithm*> FindAlgorithm(std::string_view name);
std::vector<const Algorithm*> Algorithms();  // by name

// Federated averaging itself: what others begin from.
StatusOr<Composition> FedAvg(const AlgorithmContext& context);

// What clients do to measure a version (federated_evaluation.cc): a pass for each model that is measured, over all of
// their data in batches of so many examples, of the model's own loss and metrics. Of the shared model it declares
// "evaluate/loss" and "evaluate/METRIC", or "evaluate/METRIC/right" and ".../total" of a rate; of a client's own,
// Composition::personal, "personal/loss" and so on. A model with local variables has no shared one to measure.
StatusOr<std::vector<LocalPass>> FederatedEvaluation(const ModelDef& model, const Composition& composition,
                                                     int64_t batch_size);

// What the scenario's algorithm composes for a model of this layout, with the bounds of the scenario's [server].
// NOT_FOUND as FindAlgorithm; INVALID_ARGUMENT as Settings::Read, the algorithm and ValidateSpec say.
StatusOr<Composition> Compose(const Scenario& scenario, const ModelLayout& layout);

// The plan of a scenario's run, verified as every client will verify it. `model` comes from a preset or a graph file;
// nothing of federated/ links presets, so the caller brings it. Errors as Compose and Plan::Build.
StatusOr<std::shared_ptr<const Plan>> ComposePlan(const Scenario& scenario, const ModelDef& model);
// The bytes of that plan.
StatusOr<std::string> BuildPlan(const Scenario& scenario, const ModelDef& model);

// Every algorithm with its options, as Markdown: what docs/reference/algorithms.md holds between its markers.
std::string AlgorithmReference();

}  // namespace rivulet
