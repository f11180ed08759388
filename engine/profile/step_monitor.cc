#include "engine/profile/step_monitor.h"

#include <algorithm>

#include "engine/base/check.h"

namespace rivulet {

bool StepMonitor::MayRecord() const {
  return std::ranges::any_of(sinks_, [](const RunSink* sink) { return sink->MayWant(); });
}

std::unique_ptr<RunRecorder> StepMonitor::Take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<RunRecorder> recorder = std::move(idle_.back());
      idle_.pop_back();
      return recorder;
    }
  }
  return std::make_unique<RunRecorder>();
}

void StepMonitor::GiveBack(std::unique_ptr<RunRecorder> recorder) {
  recorder->Clear();
  MutexLock lock(mutex_);
  idle_.push_back(std::move(recorder));
}

void MonitoredRun::Begin(StepMonitor& monitor, Bindings& bindings) {
  RIVULET_CHECK(monitor.sinks_.size() <= 8);
  for (size_t i = 0; i < monitor.sinks_.size(); ++i)
    if (monitor.sinks_[i]->Wants()) wanted_ |= 1u << i;
  if (wanted_ == 0) return;
  monitor_ = &monitor;
  bindings_ = &bindings;
  recorder_ = monitor.Take();
  bindings.observer = recorder_.get();
  begin_ = ProfileNanos();
}

void MonitoredRun::Tell() {
  const RecordedRun run{recorder_->spans(), begin_, ProfileNanos(), recorder_->dropped()};
  for (size_t i = 0; i < monitor_->sinks_.size(); ++i)
    if ((wanted_ >> i & 1) != 0) monitor_->sinks_[i]->Take(run);
  Leave(true);
}

void MonitoredRun::Leave(bool told) {
  for (size_t i = 0; !told && i < monitor_->sinks_.size(); ++i)
    if ((wanted_ >> i & 1) != 0) monitor_->sinks_[i]->Lost();
  bindings_->observer = nullptr;
  monitor_->GiveBack(std::move(recorder_));
}

}  // namespace rivulet
