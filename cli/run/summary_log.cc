#include "cli/run/summary_log.h"

#include <chrono>
#include <utility>

namespace rivulet {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Status SummaryLog::Begin(const std::string& logdir, const std::string& run_id) {
  MutexLock lock(mutex_);
  RIVULET_ASSIGN_OR_RETURN(writer_,
                           SummaryWriter::Create(FileSystem::Default(), JoinPath(logdir, run_id), SecondsNow()));
  return absl::OkStatus();
}

void SummaryLog::Add(SummaryEvent event) {
  event.wall_time = SecondsNow();
  MutexLock lock(mutex_);
  if (writer_ == nullptr) return;
  if (const Status status = writer_->Add(event); !status.ok()) {
    fmt::print(stderr, "rivulet: warning: {}; --logdir has the rounds up to here\n", Message(status));
    writer_.reset();
  }
}

void SummaryLog::Observe(CoordinatorObserver& observer) {
  observer.on_round = [this, before = std::move(observer.on_round)](const RoundReport& report) {
    if (before) before(report);
    if (report.status != "committed") return;
    SummaryEvent event{.step = report.round};
    event.scalars = {{"round/train_seconds", report.train_seconds},
                     {"round/aggregate_seconds", report.aggregate_seconds},
                     {"round/folded", static_cast<double>(report.folded)},
                     {"round/lost", static_cast<double>(report.selected - report.folded)},
                     {"train_loss", report.train_loss}};
    event.scalars.insert(event.scalars.end(), report.central.begin(), report.central.end());
    Add(std::move(event));
  };
  observer.on_evaluation = [this, before = std::move(observer.on_evaluation)](const EvaluationReport& report) {
    if (before) before(report);
    SummaryEvent event{.step = report.round};
    event.scalars.assign(report.federated.begin(), report.federated.end());
    if (!event.scalars.empty()) Add(std::move(event));
  };
}

}  // namespace rivulet
