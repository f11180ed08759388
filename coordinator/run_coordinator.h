// The coordinator of one run: the wiring of its classes, which together implement Coordinator.
//
//   Clients        admission and outcomes; polls come in here
//   Rounds         drives the round machine: attempts, tasks, updates
//   Intake         bytes on their way in
//   Versions       the models in use
//   AttemptCloser  makes versions and rows of closed attempts, on the run's own thread
//   ClientStates, AcceptedReports   clients' state between tasks; updates that survive this process
//   RunHistory, RunEvents, RunClock
//
// Each has its own lock. They nest in this order: JoiningNames → Clients → Rounds → Intake (→ Upload → Staging) →
// Versions, ClientStates, RunEvents, RunHistory. An accumulator's lock is taken alone.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "coordinator/accepted_reports.h"
#include "coordinator/client_states.h"
#include "coordinator/clients.h"
#include "coordinator/close_attempt.h"
#include "coordinator/coordinator_setup.h"
#include "coordinator/intake/intake.h"
#include "coordinator/rounds.h"
#include "coordinator/served_records.h"
#include "coordinator/versions.h"

namespace rivulet {

class RunCoordinator final : public Coordinator {
 public:
  explicit RunCoordinator(CoordinatorSetup setup);
  ~RunCoordinator() override;

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override;
  void SetListener(NewsListener* listener) override { rounds_.SetListener(listener); }
  StatusOr<SubmitResult> SubmitInPlace(const Caller& caller, Partial&& partial,
                                       std::span<const TaskRecord> records) override;
  StatusOr<std::shared_ptr<const Model>> FetchInPlace(const Caller& caller, const BlobId& blob) override;

  const std::string& run_id() const override { return setup_.run_id; }
  const std::string& folder() const override { return setup_.models->folder(); }
  bool already_finished() const override { return setup_.already_finished; }
  Status Wait() override;
  void Stop() override;
  void Steer(Steering steering) override;
  bool Remove(const std::string& client_id, const std::string& reason) override;
  void LoseSite(const std::string& site) override;
  RunStatus Standing() override { return rounds_.Standing(); }
  bool over() const override { return rounds_.over(); }
  bool stopped() const override { return rounds_.stopped(); }
  std::shared_ptr<const Model> model() const override { return versions_.current()->model; }

 private:
  Status CheckCaller(const Caller& caller) const;
  StatusOr<Blob> Find(const Caller& caller, const BlobId& blob);
  StatusOr<std::unique_ptr<ChunkReader>> FetchBase(const Caller& caller, const Digest& digest, int64_t offset);
  void RunThread();
  void EndRun();

  CoordinatorSetup setup_;
  const RunClock clock_;
  RunHistory history_;
  RunEvents events_;
  Versions versions_;
  Intake intake_;
  ClientStates states_;
  AcceptedReports reports_;
  Clients clients_;
  Rounds rounds_;
  ServedRecords records_;
  AttemptCloser closer_;
  std::thread thread_;
};

}  // namespace rivulet
