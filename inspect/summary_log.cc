#include "inspect/summary_log.h"

#include <chrono>
#include <utility>

#include "coordinator/history/questions.h"
#include "inspect/tensorboard.h"

namespace rivulet {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Status SummaryLog::Begin(const std::string& logdir, const std::string& db, const std::string& run_id) {
  SummaryEvent start{.wall_time = 0, .scalars = {}};
  run_id_ = run_id;
  {
    MutexLock lock(reading_);
    RIVULET_ASSIGN_OR_RETURN(history_, History::Open(db, History::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history_->ResolveRun(run_id));
    RIVULET_ASSIGN_OR_RETURN(start.hyperparameters, HyperParametersOf(*history_, run_id));
    RIVULET_ASSIGN_OR_RETURN(const auto models, ModelSummaries::Open(*history_, run, 0));
    start.graph_def = models->graph_def();
    // Earlier rounds are in the file that was written then.
    RIVULET_ASSIGN_OR_RETURN(const SqlAnswer newest,
                             history_->Ask("SELECT coalesce(max(round), 0) FROM rounds WHERE run_id = ?", {run_id}));
    clients_told_ = std::get<int64_t>(newest.rows[0][0]);
    looked_ = std::chrono::steady_clock::now();
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

Status SummaryLog::AddClients(History& history, int64_t most) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> metrics, ClientMetricNames(history, run_id_));
  RIVULET_ASSIGN_OR_RETURN(
      const SqlAnswer rounds,
      history.Ask("SELECT round, attempt FROM rounds WHERE run_id = ? AND status = 'committed' AND "
                  "round > ? ORDER BY round LIMIT ?",
                  {run_id_, clients_told_, most}));
  for (const auto& row : rounds.rows) {
    SummaryEvent event{.step = std::get<int64_t>(row[0]), .scalars = {}};
    RIVULET_RETURN_IF_ERROR(AddClientsTo(event, history, run_id_, std::get<int64_t>(row[1]), metrics));
    clients_told_ = event.step;
    Add(std::move(event));
  }
  return absl::OkStatus();
}

// A round's rows are written after its report, and the reporting thread must not wait. So existing rows are read, at
// most once a second and a few rounds at a time; the rest is read at the end.
void SummaryLog::AddClientsNow() {
  constexpr int64_t kRounds = 20;
  MutexLock lock(reading_);
  const auto now = std::chrono::steady_clock::now();
  if (history_ == nullptr || now - looked_ < std::chrono::seconds(1)) return;
  looked_ = now;
  if (const Status status = AddClients(*history_, kRounds); !status.ok()) {
    tell_(fmt::format("{}; --logdir continues without histograms of clients", Message(status)));
    history_.reset();
  }
}

Status SummaryLog::AddEnd(const std::string& db, const std::string& run_id) {
  constexpr size_t kPictures = 1;  // each of them delays the end of the run
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto models,
                           ModelSummaries::Open(*history, run, run.status == "finished" ? kPictures : 0));
  {
    constexpr int64_t kRounds = 200;
    MutexLock lock(reading_);
    history_.reset();
    RIVULET_RETURN_IF_ERROR(AddClients(*history, kRounds));
  }
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
    tell_(fmt::format("{}; --logdir continues without histograms of models", Message(status)));
}

void SummaryLog::Observe(CoordinatorObserver& observer) {
  observer.on_round = [this, before = std::move(observer.on_round)](const RoundReport& report) {
    if (before) before(report);
    if (report.status != "committed") return;
    SummaryEvent event = SummaryOf(report);
    event.scalars.insert(event.scalars.end(), report.central.begin(), report.central.end());
    Add(std::move(event));
    AddClientsNow();
  };
  observer.on_evaluation = [this, before = std::move(observer.on_evaluation)](const EvaluationReport& report) {
    if (before) before(report);
    SummaryEvent event{.step = report.round, .scalars = {}};
    event.scalars.assign(report.federated.begin(), report.federated.end());
    if (!event.scalars.empty()) Add(std::move(event));
  };
}

}  // namespace rivulet
