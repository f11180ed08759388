#include "simulations/canary_audit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "coordinator/history/history.h"
#include "coordinator/stored_run.h"
#include "federated/plan/plan.h"
#include "federated/random/streams.h"
#include "federated/server_state/server_state.h"
#include "setup/run_setup.h"
#include "simulations/attacks/adversaries.h"
#include "simulations/attacks/canary.h"

namespace rivulet {
namespace {

constexpr int64_t kFewestCanaries = 10;
// At 99.9 % ten guesses that are all right show nothing yet, and 40 show an epsilon of 1.65.
constexpr int64_t kUsualGuesses = 40;

// What the run released: the newest model less the first one, in wire order.
StatusOr<std::vector<double>> ReleasedDifference(const Model& first, const Model& newest) {
  const ModelLayout& layout = first.layout();
  std::vector<double> difference(static_cast<size_t>(layout.update_elements()));
  for (const Slice& slice : layout.slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    const auto from = first.tensor(slice).flat<float>(), to = newest.tensor(slice).flat<float>();
    const auto begin = static_cast<size_t>(slice.wire_offset);
    for (size_t i = 0; i < from.size(); ++i) difference[begin + i] = static_cast<double>(to[i]) - from[i];
  }
  double squares = 0;
  for (const double value : difference) squares += value * value;
  if (!(squares > 0)) return FailedPrecondition("the newest model is the first one, so nothing of it can be audited");
  for (double& value : difference) value /= std::sqrt(squares);
  return difference;
}

StatusOr<std::shared_ptr<const Model>> NewestModel(History& history, const std::string& run_id, int64_t round,
                                                   const std::shared_ptr<const ModelLayout>& layout) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history.Models(run_id));
  const auto row = std::ranges::find(models, round, &ModelRow::round);
  if (row == models.end() || row->path.empty()) {
    return FailedPrecondition("the model of round {} of run '{}' was not kept, and an audit compares it with the first",
                              round, run_id);
  }
  const std::string path = JoinPath(FolderOf(history.real_path()), row->path);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  StatusOr<ServerState> state = ReadServerState(layout, bytes);
  if (!state.ok()) return Annotate(state.status(), path);
  return state->model;
}

double CosineWith(const std::vector<double>& released, const std::vector<double>& direction) {
  double cosine = 0;
  for (size_t i = 0; i < released.size(); ++i) cosine += released[i] * direction[i];
  return cosine;
}

}  // namespace

StatusOr<CanaryAudit> AuditByCanaries(const CanaryAuditOptions& options) {
  const Scenario& scenario = options.scenario;
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(options.db_path, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  if (scenario.attack.name != kCanaryAttack) {
    return FailedPrecondition(
        "run '{}' has no canaries; simulate it with attack.name = \"{}\" and attack.fraction, the share of clients "
        "that are canaries",
        run.run_id, kCanaryAttack);
  }
  const auto noise = scenario.algorithm.settings.find("noise");
  if (noise != scenario.algorithm.settings.end() && noise->second == SettingValue(std::string("distributed"))) {
    return FailedPrecondition(
        "run '{}' has algorithm.noise = \"distributed\", and canaries send no noise, so an audit would see "
        "less noise than there is; audit the same settings with \"central\"",
        run.run_id);
  }
  CanaryAudit audit{.run_id = run.run_id, .dp_delta = scenario.privacy.delta};
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> rounds, history->Rounds(run.run_id));
  for (const RoundRow& round : rounds) {
    if (round.epsilon) audit.claimed = round.epsilon;  // abandoned attempts spend, too
    if (round.status == "committed") audit.round = std::max(audit.round, round.round);
  }
  if (audit.round == 0) return FailedPrecondition("run '{}' has no version to audit", run.run_id);

  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> kept, PlanOfStoredRun(options.db_path, options.run));
  RunSetup setup(scenario, {.plan = std::move(kept)});
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Model> first, setup.initial_model());
  if (first == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(first, InitialModel(*plan, scenario.run.seed));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> newest,
                           NewestModel(*history, run.run_id, audit.round, plan->layout()));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<double> released, ReleasedDifference(*first, *newest));

  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
  RIVULET_ASSIGN_OR_RETURN(const auto clients, Adversaries::Create(scenario, plan->keeps_state(), data, shares));
  std::vector<privacy::SeenCanary> seen;
  std::vector<double> cosines;
  for (int64_t client = 0; client < shares->size(); ++client) {
    const std::string name = shares->NameAt(client);
    if (!clients->Attacks(name)) continue;
    const Canary canary = CanaryFrom(DrawsOfAttacker(ClientKey(scenario.run.seed, name)), released.size());
    seen.push_back({CosineWith(released, canary.direction), canary.taken});
    if (canary.taken) cosines.push_back(seen.back().score);
  }
  audit.canaries = std::ssize(seen);
  audit.taken = std::ssize(cosines);
  if (audit.canaries < kFewestCanaries || audit.taken < 2) {
    return InvalidArgument(
        "run '{}' has {} canaries, {} of them put in; an audit needs at least {} and 2. Raise "
        "attack.fraction or the number of clients",
        run.run_id, audit.canaries, audit.taken, kFewestCanaries);
  }
  RIVULET_ASSIGN_OR_RETURN(audit.estimate, privacy::EstimateByCanaries(cosines, std::ssize(released), audit.dp_delta));
  const int64_t usual = std::min(audit.canaries, std::max(audit.canaries / 5, kUsualGuesses)) / 2 * 2;
  const int64_t guesses = options.guesses > 0 ? options.guesses : usual;
  RIVULET_ASSIGN_OR_RETURN(audit.guessed, privacy::GuessCanaries(seen, guesses, audit.dp_delta, options.confidence));
  return audit;
}

}  // namespace rivulet
