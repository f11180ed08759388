#include "inspect/overview.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "coordinator/ledger/ledger.h"
#include "federated/evaluation/evaluator.h"
#include "inspect/run_status.h"

namespace rivulet {
namespace {

constexpr size_t kFailuresShown = 20;

// Seconds from one time to a later one, in the history's format.
double SecondsBetween(const std::string& from, const std::string& to) {
  const StatusOr<int64_t> begin = UnixMs(from), end = UnixMs(to);
  return begin.ok() && end.ok() ? static_cast<double>(std::max<int64_t>(*end - *begin, 0)) / 1000 : 0;
}

TimeSplit SplitOf(const RunOverview& run, const TaskTimes& tasks) {
  TimeSplit time;
  for (const RoundRow& attempt : run.attempts) {
    time.training += attempt.train_seconds;
    time.aggregating += attempt.aggregate_seconds;
    time.evaluating += attempt.evaluate_seconds;
  }
  std::string end = run.run.finished_at;
  if (end.empty() && !run.attempts.empty()) end = run.attempts.back().finished_at;
  const std::string& start = run.run.started_at.empty() ? run.run.created_at : run.run.started_at;
  const double known = time.training + time.aggregating + time.evaluating;
  time.total = std::max(SecondsBetween(start, end), known);
  time.rest = time.total - known;
  time.task_waiting = tasks.wait_seconds;
  time.task_training = tasks.train_seconds;
  time.task_uploading = tasks.upload_seconds;
  return time;
}

// The clients that failed most, most first; the clients' sums give their number.
Status LoadClients(History& history, RunOverview& overview) {
  const std::string& run_id = overview.run.run_id;
  RIVULET_ASSIGN_OR_RETURN(overview.clients, history.ClientReliability(run_id));
  std::vector<ClientReliabilityRow> worst;
  std::ranges::copy_if(overview.clients, std::back_inserter(worst),
                       [](const ClientReliabilityRow& client) { return client.folded < client.tasks; });
  overview.failing = static_cast<int64_t>(worst.size());
  std::ranges::stable_sort(worst, std::greater{}, [](const auto& client) { return client.tasks - client.folded; });
  worst.resize(std::min(worst.size(), kFailuresShown));
  RIVULET_ASSIGN_OR_RETURN(overview.failures, ClientFailures(history, run_id, worst));
  return absl::OkStatus();
}

}  // namespace

const std::pair<int64_t, double>& Curve::best() const {
  return *std::ranges::min_element(points, {}, [&](const auto& p) { return lower_is_better ? p.second : -p.second; });
}

int64_t RunOverview::committed() const { return std::ranges::count(attempts, "committed", &RoundRow::status); }

const Curve* RunOverview::curve(std::string_view name) const {
  const auto found = std::ranges::find(curves, name, &Curve::name);
  return found == curves.end() ? nullptr : &*found;
}

const ModelRow* RunOverview::newest_model() const {
  const auto found =
      std::find_if(models.rbegin(), models.rend(), [](const ModelRow& row) { return !row.path.empty(); });
  return found == models.rend() ? nullptr : &*found;
}

StatusOr<std::vector<Curve>> LoadCurves(History& history, const std::string& run_id) {
  std::vector<Curve> curves;
  for (const char* scope : {"central", "federated"}) {
    RIVULET_ASSIGN_OR_RETURN(const auto metrics, history.Metrics(run_id, scope));
    std::map<std::string, Curve> by_name;
    std::map<std::string, std::pair<int64_t, std::map<std::string, double>>> spreads;  // with its round
    for (const MetricRow& metric : metrics) {
      if (!metric.value) continue;
      if (std::ranges::count(metric.name, '/') > 1) {  // "evaluate/loss/p10"
        const size_t end = metric.name.rfind('/');
        auto& [round, spread] = spreads[metric.name.substr(0, end)];
        if (std::exchange(round, metric.round) != metric.round) spread.clear();
        spread[metric.name.substr(end + 1)] = *metric.value;
        continue;
      }
      Curve& curve = by_name[metric.name];
      curve.name = metric.name;
      curve.lower_is_better = LowerIsBetter(metric.name);
      curve.points.emplace_back(metric.round, *metric.value);
    }
    for (auto& [name, curve] : by_name) {
      auto& [round, spread] = spreads[name];
      if (round == curve.points.back().first) curve.spread = std::move(spread);
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

StatusOr<std::optional<Curve>> LoadFirstCurve(History& history, const std::string& run_id) {
  constexpr std::pair<const char*, const char*> kFirst[] = {
      {"central", "test/accuracy"}, {"federated", "evaluate/accuracy"}, {"federated", "personal/accuracy"},
      {"central", "test/loss"},     {"federated", "evaluate/loss"},     {"federated", "train/loss"}};
  for (const auto& [scope, name] : kFirst) {
    RIVULET_ASSIGN_OR_RETURN(const SqlAnswer answer,
                             history.Ask("SELECT round, value FROM metrics WHERE run_id = ? AND scope = ? AND name = ? "
                                         "AND value IS NOT NULL ORDER BY round",
                                         {run_id, scope, name}));
    if (answer.rows.empty()) continue;
    Curve curve{.name = name, .points = {}, .lower_is_better = LowerIsBetter(name)};
    for (const auto& row : answer.rows) {
      const auto* round = std::get_if<int64_t>(&row[0]);
      const auto* value = std::get_if<double>(&row[1]);
      if (round != nullptr && value != nullptr) curve.points.emplace_back(*round, *value);
    }
    if (!curve.points.empty()) return std::optional(std::move(curve));
  }
  // Another program's run has metrics under its own names.
  RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(history, run_id));
  if (curves.empty()) return std::nullopt;
  return std::optional(std::move(curves.front()));
}

StatusOr<RunOverview> LoadOverview(History& history, const std::string& run, OverviewParts parts) {
  RunOverview overview;
  RIVULET_ASSIGN_OR_RETURN(overview.run, history.ResolveRun(run));
  const std::string& run_id = overview.run.run_id;
  overview.run.status = StatusNow(history.real_path(), run_id, overview.run.status);
  RIVULET_ASSIGN_OR_RETURN(overview.attempts, history.Rounds(run_id));
  RIVULET_ASSIGN_OR_RETURN(overview.curves, LoadCurves(history, run_id));
  if (const Curve* time = overview.curve(kVirtualSeconds); time != nullptr) {
    overview.virtual_seconds = time->points.back().second;
    std::erase_if(overview.curves, [](const Curve& curve) { return curve.name == kVirtualSeconds; });
  }
  if (const Curve* lanes = overview.curve(kDeviceLanes); lanes != nullptr) {
    for (const auto& [round, most] : lanes->points)
      overview.lanes = std::max(overview.lanes, static_cast<int64_t>(most));
    std::erase_if(overview.curves, [](const Curve& curve) { return curve.name == kDeviceLanes; });
  }
  if (overview.curve(kDeviceTf32) != nullptr) {
    overview.tf32 = true;
    std::erase_if(overview.curves, [](const Curve& curve) { return curve.name == kDeviceTf32; });
  }
  RIVULET_ASSIGN_OR_RETURN(overview.models, history.Models(run_id));
  RIVULET_ASSIGN_OR_RETURN(overview.tags, history.Tags(run_id));
  RIVULET_ASSIGN_OR_RETURN(overview.notes, history.Notes(run_id));
  TaskTimes times;
  if (parts == OverviewParts::kAll) {
    RIVULET_RETURN_IF_ERROR(LoadClients(history, overview));
    RIVULET_ASSIGN_OR_RETURN(times, MeanTaskTimes(history, run_id));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto run_keys, history.RunKeys(run_id));
  for (const RunKeyRow& key : run_keys) {
    if (key.key != "run.rounds") continue;
    const Cell rounds = CellOfToml(key.value);
    if (const auto* wanted = std::get_if<int64_t>(&rounds)) overview.rounds_wanted = *wanted;
  }
  overview.keys = KeysThatMatter(overview.run.config);
  if (overview.run.foreign()) {
    for (const RunKeyRow& key : run_keys) overview.keys.emplace_back(key.key, key.value);
  }
  std::erase_if(overview.keys, [](const auto& key) { return key.first == "run.name"; });
  for (const RoundRow& attempt : overview.attempts) {
    overview.bytes_down += attempt.bytes_down;
    overview.bytes_up += attempt.bytes_up;
  }
  overview.first_reason = overview.run.reason;
  for (const RoundRow& attempt : overview.attempts)
    if (overview.first_reason.empty() && overview.run.status != "finished" && !attempt.reason.empty())
      overview.first_reason = attempt.reason;
  overview.time = SplitOf(overview, times);
  return overview;
}

}  // namespace rivulet
