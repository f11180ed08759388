#include "cli/run/summary_log.h"

#include <chrono>
#include <utility>

#include "cli/runs/tensorboard.h"

namespace rivulet {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Status SummaryLog::Begin(const std::string& logdir, const std::string& db, const std::string& run_id) {
  SummaryEvent start{.wall_time = 0, .scalars = {}};
  {
    RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(run_id));
    RIVULET_ASSIGN_OR_RETURN(start.hyperparameters, HyperParametersOf(*history, run_id));
    RIVULET_ASSIGN_OR_RETURN(const auto models, ModelSummaries::Open(*history, run, 0));
    start.graph_def = models->graph_def();
  }
  {
    MutexLock lock(mutex_);
    RIVULET_ASSIGN_OR_RETURN(writer_,
                             SummaryWriter::Create(FileSystem::Default(), JoinPath(logdir, run_id), SecondsNow()));
  }
  Add(std::move(start));
  return absl::OkStatus();
}

void SummaryLog::Add(SummaryEvent event) {
  event.wall_time = SecondsNow();
  MutexLock lock(mutex_);
  if (writer_ == nullptr) return;
  if (const Status status = writer_->Add(event); !status.ok()) {
    tell_(fmt::format("{}; --logdir has the rounds up to here", Message(status)));
    writer_.reset();
  }
}

Status SummaryLog::AddEnd(const std::string& db, const std::string& run_id) {
  constexpr size_t kPictures = 1;  // whoever waits for the end of the run waits for each of them
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto models,
                           ModelSummaries::Open(*history, run, run.status == "finished" ? kPictures : 0));
  SummaryEvent last{.scalars = {}};
  for (const int64_t round : models->rounds()) {
    SummaryEvent event{.step = round, .scalars = {}};
    RIVULET_RETURN_IF_ERROR(models->AddTo(event));
    Add(std::move(event));
    last.step = round;
  }
  last.end = SummaryEndOf(run.status);
  Add(std::move(last));
  return absl::OkStatus();
}

void SummaryLog::End(const std::string& db, const std::string& run_id) {
  {
    MutexLock lock(mutex_);
    if (writer_ == nullptr) return;
  }
  if (const Status status = AddEnd(db, run_id); !status.ok())
    tell_(fmt::format("{}; --logdir is without what the models say", Message(status)));
}

void SummaryLog::Observe(CoordinatorObserver& observer) {
  observer.on_round = [this, before = std::move(observer.on_round)](const RoundReport& report) {
    if (before) before(report);
    if (report.status != "committed") return;
    SummaryEvent event = SummaryOf(report);
    event.scalars.insert(event.scalars.end(), report.central.begin(), report.central.end());
    Add(std::move(event));
  };
  observer.on_evaluation = [this, before = std::move(observer.on_evaluation)](const EvaluationReport& report) {
    if (before) before(report);
    SummaryEvent event{.step = report.round, .scalars = {}};
    event.scalars.assign(report.federated.begin(), report.federated.end());
    if (!event.scalars.empty()) Add(std::move(event));
  };
}

}  // namespace rivulet
