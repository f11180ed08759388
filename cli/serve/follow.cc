#include "cli/serve/follow.h"

#include <algorithm>

#include "coordinator/history/history.h"
#include "coordinator/history/pointers.h"
#include "engine/base/clock.h"
#include "federated/evaluation/evaluator.h"
#include "inspect/run_model.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

constexpr std::chrono::milliseconds kLook{250};

// The measures of a round, by metric.
StatusOr<std::map<std::string, double>> MeasuredAt(History& history, const std::string& run_id, int64_t round) {
  RIVULET_ASSIGN_OR_RETURN(const auto metrics, history.Metrics(run_id));
  std::map<std::string, double> values;
  for (const MetricRow& metric : metrics)
    if (metric.round == round && metric.value) values[metric.name] = *metric.value;
  return values;
}

// Why a version is held back; "": it is not.
StatusOr<std::string> HeldBy(History& history, const FollowGates& gates, const RunModel& version,
                             const std::optional<PointedVersion>& present) {
  RIVULET_ASSIGN_OR_RETURN(const auto values, MeasuredAt(history, version.run_id, version.round));
  for (const auto& [metric, least] : gates.least) {
    const auto found = values.find(metric);
    if (found == values.end()) return fmt::format("{} was not measured", metric);
    if (!(found->second >= least)) return fmt::format("{} is {}, below {}", metric, found->second, least);
  }
  if (!gates.max_drop || !present) return std::string();
  RIVULET_ASSIGN_OR_RETURN(const auto before, MeasuredAt(history, present->run_id, present->round));
  for (const std::string_view metric : kJudgingMetrics) {
    const auto was = before.find(std::string(metric)), is = values.find(std::string(metric));
    if (was == before.end() || is == values.end()) continue;
    const double drop = LowerIsBetter(metric) ? is->second - was->second : was->second - is->second;
    if (drop > *gates.max_drop)
      return fmt::format("{} is {}, and {} of the version that serves", metric, is->second, was->second);
    return std::string();
  }
  return std::string();
}

}  // namespace

StatusOr<FollowedRun> FollowOf(const std::string& db, const std::string& text) {
  const size_t last = text.rfind('='), first = text.find('=');
  if (last == std::string::npos || last + 1 == text.size())
    return InvalidArgument("--follow is NAME[=LABEL]=RUN[:latest|:best], not '{}'", text);
  FollowedRun run{db, text.substr(0, first), first == last ? kStableLabel : text.substr(first + 1, last - first - 1),
                  text.substr(last + 1)};
  RIVULET_RETURN_IF_ERROR(CheckServedName(run.name));
  RIVULET_RETURN_IF_ERROR(CheckLabel(run.label));
  const std::string round = NamesRound(run.run) ? run.run.substr(run.run.rfind(':') + 1) : "latest";
  if (round != "latest" && round != "best")
    return InvalidArgument("--follow {}: a label follows 'latest' or 'best', not round {}", text, round);
  return run;
}

RunFollower::RunFollower(std::vector<FollowedRun> runs, FollowGates gates, ServedPlanOptions plan, std::string author,
                         std::function<void(const std::string& sentence)> tell)
    : runs_(std::move(runs)),
      gates_(std::move(gates)),
      plan_(std::move(plan)),
      author_(std::move(author)),
      tell_(std::move(tell)) {}

RunFollower::~RunFollower() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  closing_changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

Status RunFollower::PointOne(FollowedRun& run) {
  RIVULET_ASSIGN_OR_RETURN(const RunModel found, FindRunModel(run.db, run.run));
  std::string& last = last_[run.name + "\n" + run.label];
  const std::string version = fmt::format("{}:{}", found.run_id, found.round);
  std::optional<PointedVersion> present;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(run.db, Database::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
    auto names = NamesOf(rows);
    if (const auto label = names[run.name].labels.find(run.label); label != names[run.name].labels.end())
      present = label->second.target;
  }
  if (present && present->run_id == found.run_id && present->round == found.round) return absl::OkStatus();
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(run.db, History::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const std::string held, HeldBy(*history, gates_, found, present));
    if (!held.empty()) {
      const std::string sentence = fmt::format("{}={} does not follow to {}: {}", run.name, run.label, version, held);
      if (last != sentence) tell_(sentence);
      last = sentence;
      return absl::OkStatus();
    }
  }
  RIVULET_RETURN_IF_ERROR(PointTo(FileSystem::Default(),
                                  {.db = run.db,
                                   .name = run.name,
                                   .label = run.label,
                                   .run_id = found.run_id,
                                   .round = found.round,
                                   .version_path = found.path,
                                   .percent = std::nullopt,
                                   .cluster = std::nullopt,
                                   .author = author_,
                                   .note = "follows " + run.run,
                                   .now = Clock::System().UnixMs()},
                                  plan_)
                              .status());
  last = fmt::format("{}={} follows to {}", run.name, run.label, version);
  tell_(last);
  return absl::OkStatus();
}

Status RunFollower::PointAll() {
  for (FollowedRun& run : runs_) RIVULET_RETURN_IF_ERROR(PointOne(run));
  return absl::OkStatus();
}

void RunFollower::Start() {
  thread_ = std::thread([this] { Watch(); });
}

// A history that cannot be read now, or a version that was removed meanwhile, is tried again later.
void RunFollower::Watch() {
  std::map<std::string, std::unique_ptr<Pointers>> histories;
  std::map<std::string, int64_t> seen;
  std::map<std::string, std::string> told;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (!closing_) closing_changed_.WaitFor(mutex_, kLook);
      if (closing_) return;
    }
    for (FollowedRun& run : runs_) {
      const Status status = [&]() -> Status {
        std::unique_ptr<Pointers>& pointers = histories[run.db];
        if (pointers == nullptr) {
          RIVULET_ASSIGN_OR_RETURN(pointers, Pointers::Open(run.db, Database::Access::kReadOnly));
        }
        RIVULET_ASSIGN_OR_RETURN(const int64_t version, pointers->DataVersion());
        const std::string key = run.db + "\n" + run.name + "\n" + run.label;
        if (const auto found = seen.find(key); found != seen.end() && found->second == version) return absl::OkStatus();
        RIVULET_RETURN_IF_ERROR(PointOne(run));
        seen[key] = version;
        return absl::OkStatus();
      }();
      const std::string sentence(Message(status));
      if (!status.ok() && told[run.name + run.label] != sentence)
        tell_(fmt::format("{}={} cannot follow now: {}", run.name, run.label, sentence));
      told[run.name + run.label] = sentence;
    }
  }
}

}  // namespace rivulet
