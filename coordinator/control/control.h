// Operators' service of a coordinator, answered from its runs, its clients and its history. The audit is written before
// the action; for a submitted run after it, since only then it has an id. Bans and approvals are rows of the history,
// and so outlive the process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/control/client_registry.h"
#include "coordinator/history/history.h"
#include "coordinator/host/coordinator_host.h"
#include "engine/base/mutex.h"
#include "federated/transport/control_api.h"

namespace rivulet {

struct ControlOptions {
  CoordinatorHost* host = nullptr;  // both must outlive the control
  ClientRegistry* roster = nullptr;
  std::string db_path;
  std::function<int64_t()> now_unix_ms;
  // Starts a run and gives its id; null: this coordinator takes no submissions.
  std::function<StatusOr<std::string>(const RunSubmission& submission)> start;
  // Warnings about the process now, a sentence each; null: there are none. Called on any thread.
  std::function<std::vector<std::string>()> warnings = nullptr;
};

// Operators' commands. Thread-safe; commands are executed one at a time, and so are submissions, beside them.
class Control final : public ControlApi {
 public:
  // Applies operators' earlier decisions about clients. Errors as History::Open.
  static StatusOr<std::unique_ptr<Control>> Create(ControlOptions options);

  StatusOr<ServedRuns> Runs(const OperatorCaller& caller) override;
  StatusOr<ClientPage> Clients(const OperatorCaller& caller, const std::string& after) override;
  StatusOr<std::vector<AuditEntry>> Audit(const OperatorCaller& caller) override;
  StatusOr<std::string> Command(const OperatorCaller& caller, const OperatorCommand& command) override;
  StatusOr<std::string> StartRun(const OperatorCaller& caller, const RunSubmission& submission) override;

  // The server has refused `caller`, whose certificate of this serial is revoked, with `sentence`. Operators see it,
  // and the caller's tasks are offered to others at once, before its lease lapses. An aggregator's clients are served
  // by the next aggregator that they call.
  void Revoked(const std::string& caller, const std::string& serial, const std::string& sentence);

 private:
  Control(ControlOptions options, std::unique_ptr<History> history)
      : options_(std::move(options)), history_(std::move(history)) {}
  Status Recall();
  // Finds a run by id, or the newest by name; "": the only active one. NOT_FOUND, INVALID_ARGUMENT: lists the runs.
  StatusOr<std::shared_ptr<Coordinator>> FindRun(const std::string& run) const;
  StatusOr<std::string> Decide(const AuditRow& row) REQUIRES(mutex_);
  StatusOr<std::string> Steer(AuditRow row, const std::string& run) REQUIRES(mutex_);

  const ControlOptions options_;
  const std::unique_ptr<History> history_;
  Mutex starting_;  // taken before mutex_
  Mutex mutex_;
};

}  // namespace rivulet
