// The end of an attempt that the machine has closed: the next version or none, its rows and notifications. Works on the
// run's own thread; the writer owns files and rows (commit/version_writer.h), on another thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/attempt.h"
#include "coordinator/client_states.h"
#include "coordinator/clients.h"
#include "coordinator/commit/version_writer.h"
#include "coordinator/coordinator_setup.h"
#include "coordinator/rounds.h"
#include "coordinator/served_records.h"
#include "coordinator/sum_difference.h"
#include "coordinator/versions.h"

namespace rivulet {

// Closes attempts. Only the run's thread calls Close; Flush is thread-safe.
class AttemptCloser {
 public:
  // References to its environment; all must outlive it.
  struct Around {
    const RunClock& clock;
    RunHistory& history;
    RunEvents& events;
    Versions& versions;
    ClientStates& states;
    AcceptedReports& reports;
    Clients& clients;
    Rounds& rounds;
    ServedRecords& records;
  };
  // `setup` must outlive it too; its stop rule is moved from.
  AttemptCloser(CoordinatorSetup& setup, Around around);

  void Close(AttemptJob job);
  // Writes all pending attempts. OK: all are durable.
  Status Flush() { return writer_.Flush(); }

 private:
  // The result of closing an attempt, before it is written. Not OK: the run fails.
  struct Outcome {
    Status status;
    PendingAttempt pending;
  };
  // Notifications about an attempt, beside its rows.
  struct ClosedNews {
    RoundReport report;         // of a training
    EvaluationReport measured;  // of an evaluation
    std::vector<std::pair<std::string, TaskOutcome>> outcomes;
    std::vector<EventRow> events;
  };
  bool NextRoundDependsOn(const AttemptJob& job) const;
  ClosedNews NewsOf(const Attempt& attempt, const PendingAttempt& pending) const;
  // Gives the callbacks for the observer.
  std::vector<RunEvents::Callback> Notify(const PendingAttempt& pending, ClosedNews news);
  Outcome MakeRound(AttemptJob& job);
  Outcome AbandonRound(AttemptJob& job);
  Status Charge(AttemptEnd& end, std::string& exhausted) const;
  // Warns if the attempt's sum was read and differs from the previous one in few clients.
  void CompareSums(const AttemptJob& job, AttemptEnd& end, SumDifference& sums) const;
  Outcome FinishEvaluation(AttemptJob& job);
  EvaluationReport ReportOfEvaluation(const PendingAttempt& pending) const;
  // Takes its leases. `room` is empty, with memory reserved for the tasks.
  ClosedAttempt Closed(AttemptJob& job, std::vector<ClosedAttempt::ClosedTask> room) const;
  RoundReport ReportOf(const Attempt& attempt, const PendingAttempt& pending) const;
  void TraceRound(const Attempt& attempt, const RoundReport& report) const;
  VersionWriter::Options WriterOptions();
  void OnWritten(std::span<const PendingAttempt> attempts);

  const CoordinatorSetup& setup_;
  const CoordinatorOptions& options_;
  const RunParts& parts_;
  const Around around_;
  StopRule stop_rule_;
  int64_t last_round_;
  SumDifference sums_, measured_sums_;  // of secure aggregation's sums
  // Empty: a cohort's memory, kept because the system would otherwise allocate it anew.
  std::vector<Action> offers_;
  std::vector<ClosedAttempt::ClosedTask> closed_;
  VersionWriter writer_;
};

}  // namespace rivulet
