// Algorithms by name. An algorithm is one file of this folder: its paper in the comment, its options as a table of
// settings, and a function that composes a plan. A scenario's [algorithm] has the name and the options. Clients see
// only the plan, never the algorithm.
//
// Lookups are thread-safe once main has started; registrations run before.
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

// Input of an algorithm's build function. `settings` has the algorithm's own options, checked and completed.
struct AlgorithmContext {
  const Scenario& scenario;
  const ModelLayout& layout;
  const Settings& settings;
};

struct Algorithm {
  std::string name;
  std::string paper;  // "McMahan et al. 2017, arXiv:1602.05629, algorithm 1"
  std::string doc;    // its effect, in a sentence or two
  std::vector<Setting> settings;
  // INVALID_ARGUMENT: the scenario does not fit the algorithm; the message names the key.
  StatusOr<Composition> (*build)(const AlgorithmContext& context) = nullptr;
  std::string equations;  // for the reference, one per line
  // True if it needs the number of all clients, data.partition.clients. If the data determines that number, the code
  // that builds the plan counts the clients (setup/run_setup.h).
  bool counts_clients = false;
};

// Also registers the algorithm's settings as the table ("algorithm", name). CHECK fails if two have one name.
struct AlgorithmRegistration {
  explicit AlgorithmRegistration(Algorithm algorithm);
};
#define RIVULET_ALGORITHM(variable, ...) \
  [[maybe_unused]] static const ::rivulet::AlgorithmRegistration variable(::rivulet::Algorithm{__VA_ARGS__})

// NOT_FOUND names the nearest algorithm.
StatusOr<const Algorithm*> FindAlgorithm(std::string_view name);
std::vector<const Algorithm*> Algorithms();  // sorted by name

// Federated averaging itself, from which other algorithms start.
StatusOr<Composition> FedAvg(const AlgorithmContext& context);

// The passes in which clients measure a version (federated_evaluation.cc): one per measured model, over all of a
// client's data in batches of `batch_size` examples, with the model's own loss and metrics. The shared model declares
// "evaluate/loss" and "evaluate/METRIC", or "evaluate/METRIC/right" and ".../total" for a rate; a client's own model
// (Composition::personal) declares "personal/loss" and so on. Models with local variables have no shared model.
StatusOr<std::vector<LocalPass>> FederatedEvaluation(const ModelDef& model, const Composition& composition,
                                                     int64_t batch_size);

// Composes a plan by the scenario's algorithm for a model of this layout, with the bounds in the scenario's [server].
// NOT_FOUND as FindAlgorithm; INVALID_ARGUMENT as Settings::Read, the algorithm and ValidateSpec.
StatusOr<Composition> Compose(const Scenario& scenario, const ModelLayout& layout);

// The plan of a scenario's run, verified in the same way as by every client. `model` comes from a preset or a graph
// file; federated/ does not link presets, so the caller supplies it. Errors as Compose and Plan::Build.
StatusOr<std::shared_ptr<const Plan>> ComposePlan(const Scenario& scenario, const ModelDef& model);
// The bytes of the same plan.
StatusOr<std::string> BuildPlan(const Scenario& scenario, const ModelDef& model);

// Every algorithm with its options, as Markdown: the part between the markers in docs/reference/algorithms.md.
std::string AlgorithmReference();

}  // namespace rivulet
