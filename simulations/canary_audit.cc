#include "simulations/canary_audit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
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
// At 99.9 %, ten right guesses show nothing yet, and 40 show an epsilon of 1.65.
constexpr int64_t kUsualGuesses = 40;

// The difference of two models, in wire order.
std::vector<double> DifferenceOf(const Model& first, const Model& second) {
  const ModelLayout& layout = first.layout();
  std::vector<double> difference(static_cast<size_t>(layout.update_elements()));
  for (const Slice& slice : layout.slices()) {
    if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
    const auto from = first.tensor(slice).flat<float>(), to = second.tensor(slice).flat<float>();
    const auto begin = static_cast<size_t>(slice.wire_offset);
    for (size_t i = 0; i < from.size(); ++i) difference[begin + i] = static_cast<double>(to[i]) - from[i];
  }
  return difference;
}

double InnerProduct(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The run's release: the newest model less the first one, as a direction.
StatusOr<std::vector<double>> ReleasedDifference(const Model& first, const Model& newest) {
  std::vector<double> difference = DifferenceOf(first, newest);
  const double squares = InnerProduct(difference, difference);
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

// Each version's own change, if all versions are stored; empty: some are not.
StatusOr<std::vector<std::vector<double>>> EachRelease(History& history, const std::string& run_id, int64_t rounds,
                                                       const Model& first,
                                                       const std::shared_ptr<const ModelLayout>& layout) {
  std::vector<std::vector<double>> releases;
  std::shared_ptr<const Model> before;
  for (int64_t round = 1; round <= rounds; ++round) {
    StatusOr<std::shared_ptr<const Model>> after = NewestModel(history, run_id, round, layout);
    if (absl::IsFailedPrecondition(after.status())) return std::vector<std::vector<double>>();
    RIVULET_RETURN_IF_ERROR(after.status());
    releases.push_back(DifferenceOf(before == nullptr ? first : *before, **after));
    before = *std::move(after);
  }
  return releases;
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
  if (noise != scenario.algorithm.settings.end() && noise->second != SettingValue(std::string("central"))) {
    return FailedPrecondition(
        "run '{}' has its noise from clients (algorithm.noise), and canaries send no noise, so an audit would see "
        "less noise than there is; audit the same settings with \"central\"",
        run.run_id);
  }
  CanaryAudit audit{.run_id = run.run_id, .dp_delta = scenario.privacy.delta};
  RIVULET_ASSIGN_OR_RETURN(const std::vector<RoundRow> rounds, history->Rounds(run.run_id));
  bool sampled = false;
  for (const RoundRow& round : rounds) {
    if (round.epsilon) audit.claimed = round.epsilon;  // abandoned attempts also spend
    sampled |= round.sampling_rate.value_or(1) < 1;
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
  // An observer of each cohort and each version sees more than the newest model shows, such as noise shared by two
  // versions. If the claim is amplified by sampling, it assumes that cohorts are unknown to the observer.
  std::vector<std::vector<double>> releases;
  if (!sampled) {
    RIVULET_ASSIGN_OR_RETURN(releases, EachRelease(*history, run.run_id, audit.round, *first, plan->layout()));
  }
  std::map<std::string, std::vector<bool>, std::less<>> asked;  // by client: the releases with its tasks
  if (!releases.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRoundRow> tasks, history->ClientRounds(run.run_id));
    for (const ClientRoundRow& task : tasks) {
      const int64_t round = task.committed_round.value_or(task.round);
      if (task.kind != "train" || task.status != "folded" || round > std::ssize(releases)) continue;
      std::vector<bool>& rounds = asked[task.client_id];
      rounds.resize(releases.size());
      rounds[static_cast<size_t>(round - 1)] = true;
    }
  }
  std::vector<privacy::SeenCanary> seen;
  std::vector<double> cosines;
  std::vector<std::vector<double>> products(releases.size());
  std::vector<std::vector<bool>> present(releases.size());
  for (int64_t client = 0; client < shares->size(); ++client) {
    const std::string name = shares->NameAt(client);
    if (!clients->Attacks(name)) continue;
    const Canary canary = CanaryFrom(DrawsOfAttacker(ClientKey(scenario.run.seed, name)), released.size());
    seen.push_back({InnerProduct(released, canary.direction), canary.taken});
    if (canary.taken) cosines.push_back(seen.back().score);
    const auto rounds = asked.find(name);
    for (size_t r = 0; r < releases.size(); ++r) {
      products[r].push_back(InnerProduct(releases[r], canary.direction));
      present[r].push_back(rounds != asked.end() && rounds->second[r]);
    }
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
  if (!releases.empty()) {
    std::vector<std::vector<double>> inner(releases.size());
    for (size_t r = 0; r < releases.size(); ++r) {
      for (const std::vector<double>& other : releases) inner[r].push_back(InnerProduct(releases[r], other));
    }
    RIVULET_ASSIGN_OR_RETURN(const std::vector<double> scores,
                             privacy::ScoreByReleases(products, present, inner, std::ssize(released)));
    for (size_t k = 0; k < seen.size(); ++k) seen[k].score = scores[k];
    audit.releases = std::ssize(releases);
  }
  const int64_t usual = std::min(audit.canaries, std::max(audit.canaries / 5, kUsualGuesses)) / 2 * 2;
  const int64_t guesses = options.guesses > 0 ? options.guesses : usual;
  RIVULET_ASSIGN_OR_RETURN(audit.guessed, privacy::GuessCanaries(seen, guesses, audit.dp_delta, options.confidence));
  return audit;
}

}  // namespace rivulet
