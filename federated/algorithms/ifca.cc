// IFCA (Ghosh et al. 2020, arXiv:2006.04088, algorithm 1 with model averaging) and HypCluster (Mansour et al. 2020,
// arXiv:2002.10619): several models, for groups of clients that are not known beforehand. Each client k chooses the
// model with the least loss on its own examples, trains it, and contributes to that one alone:
//
//   j_k = argmin_j F_k(w_j),    K_j = {k: j_k = j},
//   w_j ← w_j + server.learning_rate · Σ_{k ∈ K_j} p_k · (w_k − w_j) / Σ_{k ∈ K_j} p_k
//
// with p_k = 1 (IFCA) or p_k = n_k (HypCluster). Among equally good models a client takes the first. A model that no
// client chose is unchanged. The models have different random initial values (w_0 has those of run.seed under any
// algorithm). If all clients find one model best at the start, the others are never trained; another run.seed may avoid
// that. With clusters = 1 it is federated averaging, to the bit.
//
// The first model is the run's, and measured as such; the server stores the others beside it
// (federated/server_optimizers/clusters.cc) and broadcasts them with it. A pass evaluates all models on the examples;
// at its end it writes the best one's index (`declared/cluster`), and training continues with that model. The index
// also decides which part of its update a client sends (PartSpec::only_where), so other models' parts are neither sent
// nor diluted. Clients measure a version with the model that they would choose.
#include <string>
#include <vector>

#include "federated/algorithms/algorithm.h"
#include "federated/plan/number.h"

namespace rivulet {
namespace {

constexpr char kCluster[] = "cluster";
constexpr int64_t kMostClusters = 8;  // instances of the model in a pass

Setting Clusters() {
  Setting clusters =
      Integer("clusters", 2, "How many models there are; 1: federated averaging.").Between(1, kMostClusters);
  clusters.example = "3";
  return clusters;
}

std::string NameOf(int64_t cluster) { return fmt::format("{}_{}", kCluster, cluster); }
std::string LossOf(int64_t cluster) { return fmt::format("{}/loss", NameOf(cluster)); }
std::string BroadcastOf(int64_t cluster) { return fmt::format("{}{}", kBroadcastPrefix, NameOf(cluster)); }

Status CheckClusters(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  if (context.layout.elements(Segment::kShared) > 0) {
    return InvalidArgument(
        "[algorithm] name = \"{}\" keeps several models, and the running statistics of this one (batch_norm) are kept "
        "once; take a model without them, or clusters = 1",
        scenario.algorithm.name);
  }
  if (context.layout.elements(Segment::kLocal) > 0) {
    return InvalidArgument(
        "[algorithm] name = \"{}\" has clients choose between models, which cannot be combined with personal layers "
        "(model.personal); leave model.personal out, or take clusters = 1",
        scenario.algorithm.name);
  }
  if (!scenario.server.fine_tune.data.empty()) {
    return InvalidArgument(
        "[algorithm] name = \"{}\" keeps several models, and server.fine_tune would train the first alone; leave it "
        "out, or take clusters = 1",
        scenario.algorithm.name);
  }
  return absl::OkStatus();
}

// Evaluates every model on all of a client's examples, and then sets params to the best one.
PassBuilder Choose(int64_t clusters) {
  PassBuilder choose;
  choose.models = {{.buffer = "base_params"}};
  choose.trains = "";
  choose.reports = LossOf(0);
  for (int64_t i = 1; i < clusters; ++i) {
    choose.models.push_back({NameOf(i), BroadcastOf(i)});
    choose.reports_too.push_back(LossOf(i));
  }
  choose.at_end = [clusters](FlatScope& f) {
    const Scope& scope = f.scope();
    const auto measured = [&f](int64_t i) { return f.Read(fmt::format("{}{}", kMeasuredPrefix, LossOf(i))); };
    Output least = measured(0), cluster = Number(scope, 0), weights = f.base_params();
    for (int64_t i = 1; i < clusters; ++i) {
      const Output loss = measured(i), better = scope.Op("Less", {loss, least});
      least = scope.Op("SelectV2", {better, loss, least});
      cluster = scope.Op("SelectV2", {better, Number(scope, static_cast<double>(i)), cluster});
      weights = scope.Op("SelectV2", {better, f.Read(BroadcastOf(i)), weights});
    }
    f.Assign(fmt::format("{}{}", kDeclaredPrefix, kCluster), cluster);
    f.Assign("params", weights);
  };
  return choose;
}

StatusOr<Composition> Clustered(const AlgorithmContext& context, const std::string& weigh) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  const int64_t clusters = context.settings.integer("clusters");
  const auto value_bits = static_cast<int>(context.scenario.server.value_bits);
  std::vector<PartSpec>& parts = composition.aggregation.parts;
  parts = {{.value_bits = value_bits, .weigh = weigh}};
  if (clusters == 1) return composition;
  RIVULET_RETURN_IF_ERROR(CheckClusters(context));
  const PassBuilder choose = Choose(clusters);
  composition.passes.insert(composition.passes.begin(), choose);
  composition.declared = {kCluster};
  composition.measured = {LossOf(0)};
  parts[0].optional = true;
  parts[0].only_where = {kCluster, 0};
  for (int64_t i = 1; i < clusters; ++i) {
    const std::string name = NameOf(i);
    composition.broadcast.push_back(name);
    composition.measured.push_back(LossOf(i));
    composition.parts[name] = {.from = "params", .less = BroadcastOf(i), .shared_too = false};
    PartSpec part = parts[0];
    part.name = name;
    part.only_where->value = static_cast<double>(i);
    parts.push_back(std::move(part));
  }
  composition.server_optimizer = {"clusters", {{"clusters", clusters}}};
  composition.personal = "params";
  composition.adaptation = {choose};
  return composition;
}

StatusOr<Composition> Ifca(const AlgorithmContext& context) { return Clustered(context, "one"); }

StatusOr<Composition> HypCluster(const AlgorithmContext& context) {
  return Clustered(context, context.scenario.server.weights == "uniform" ? "one" : "examples");
}

RIVULET_ALGORITHM(ifca_registration, "ifca", "Ghosh et al. 2020, arXiv:2006.04088, algorithm 1 with model averaging",
                  "Several models for groups of clients that are not known beforehand. Each client finds the one that "
                  "is best on its own examples, trains it and counts towards it alone, all the same (`train/cluster` "
                  "has its number). `test/…` is the first model's and `cluster_1/test/…` the second's; clients measure "
                  "the one that they would choose as `personal/…`. Models begin with different values. If one of them "
                  "is best for all clients at first, it stays so; another `run.seed` or more `clusters` may part them.",
                  {Clusters()}, Ifca,
                  "j_k = argmin_j F_k(w_j),  K_j = {k: j_k = j}\n"
                  "w_j ← w_j + server.learning_rate · Σ_{k ∈ K_j} (w_k − w_j) / |K_j|");

RIVULET_ALGORITHM(hypcluster_registration, "hypcluster", "Mansour et al. 2020, arXiv:2002.10619, HypCluster",
                  "As `ifca`, whose clients count by their examples: several models, of which each client trains the "
                  "one that is best for it.",
                  {Clusters()}, HypCluster,
                  "j_k = argmin_j F_k(w_j),  K_j = {k: j_k = j}\n"
                  "w_j ← w_j + server.learning_rate · Σ_{k ∈ K_j} n_k · (w_k − w_j) / Σ_{k ∈ K_j} n_k");

}  // namespace
}  // namespace rivulet
