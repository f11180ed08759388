// The clients of a run: their admission, their aggregators, and the outcome of each one's last task. A poll comes in
// here: its caller is admitted, then the rounds answer it, and the outcomes of earlier tasks are added.
//
// A new name's row is written before the rounds know the name: a client that was drawn before a crash must be a
// candidate after it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coordinator/commit/version_writer.h"
#include "coordinator/intake/aggregator_sessions.h"
#include "coordinator/intake/distrusted_sites.h"
#include "coordinator/joining_names.h"
#include "coordinator/ledger/client_book.h"
#include "coordinator/rounds/protocol.h"
#include "coordinator/run_clock.h"
#include "coordinator/run_events.h"
#include "coordinator/run_history.h"
#include "coordinator/run_parts.h"
#include "engine/base/mutex.h"
#include "engine/base/rate_limited_log.h"

namespace rivulet {

// Interface of the rounds for Clients. Each call is atomic. Most calls happen under the lock of Clients, which is taken
// before any lock of the rounds.
class ClientRounds {
 public:
  virtual ~ClientRounds() = default;
  // Called at each poll: begins the run, and applies deadlines that have passed. False: the run is over.
  virtual bool Begin() = 0;
  virtual bool Over() = 0;
  virtual bool Knows(const std::string& client_id) = 0;
  virtual std::string ViaOf(const std::string& client_id) = 0;
  // As RunMachine::MayJoin.
  virtual Status MayJoin(const std::string& client_id, int64_t others) = 0;
  virtual std::pair<int64_t, int64_t> NextDraw() = 0;
  // Makes these clients members, reached through `via`. Gives the reason of a wait until the run has begun; then "".
  virtual std::string Join(std::vector<std::string> client_ids, const std::string& via) = 0;
  virtual void LoseSite(const std::string& site) = 0;
  // Removes the member, for `reason`.
  virtual void Leave(const std::string& client_id, const std::string& reason) = 0;
  virtual int64_t Round() = 0;
  // Blocks while updates are aggregated that were acknowledged before a restart.
  virtual void AwaitRecovered() = 0;
  // Fills `reply` except for its outcomes. False: acknowledged updates are being aggregated; nothing was filled in.
  virtual bool Answer(const PollRequest& request, const std::set<std::string_view>& refused, PollReply* reply) = 0;
  // Whether the state that the task's client had before it is still needed, to measure a version.
  virtual bool Superseding(const TaskId& task) = 0;
};

// Members and outcomes of a run. Thread-safe. Its lock comes before that of the rounds; it is not held over I/O.
class Clients {
 public:
  // All arguments must outlive it.
  Clients(std::string run_id, const CoordinatorOptions& options, const RunParts& parts, bool resumed,
          RunHistory& history, const RunClock& clock, RunEvents& events, const DistrustedSites& distrusted,
          ClientRounds& rounds);

  // As CoordinatorApi::Poll, for a caller of this run.
  StatusOr<PollReply> Poll(const PollRequest& request) EXCLUDES(mutex_);
  // Removes a member, for `reason`. False: it is not a member.
  bool Remove(const std::string& client_id, const std::string& reason) EXCLUDES(mutex_);

  // The outcome of the client's last task. In a resumed run, the first call per client queries the history.
  std::optional<TaskOutcome> LastOutcome(const std::string& client_id) EXCLUDES(mutex_);
  // The result of an update whose task is not open any more. NOT_FOUND, with `reason`: neither memory nor the history
  // has this task of this client.
  StatusOr<SubmitResult> ResultOf(const std::string& client_id, const TaskId& task, const std::string& reason)
      EXCLUDES(mutex_);

  // Records how the tasks of a closed attempt ended, whether its rows are written or not.
  void Closed(const PendingAttempt& attempt, std::vector<std::pair<std::string, TaskOutcome>> outcomes)
      EXCLUDES(mutex_);
  // Records that the attempt's rows are written: its aggregated tasks are in a durable version.
  void Written(const PendingAttempt& attempt) EXCLUDES(mutex_);
  // As ClientBook::TakeSeen.
  std::vector<std::pair<std::string, int64_t>> TakeSeen(const ClosedAttempt& attempt, bool finishes_run)
      EXCLUDES(mutex_);
  // Runs `draw` while no name's row is being written, because such a row states the first draw of its name.
  template <typename Draw>
  void WhileNobodyJoins(const Draw& draw) EXCLUDES(mutex_) {
    joining_.WhileNoneIsWritten(draw);
  }
  bool has_aggregators() const EXCLUDES(mutex_);
  // Logs the number of refusals that were counted but not logged, before the run ends.
  void TellRestOfRefusals() { refusals_.TellRest(); }

 private:
  // clients.cc
  void TakeOutcomes(const PollRequest& request, PollReply* reply) REQUIRES(mutex_);
  void TellSites(const PendingAttempt& attempt, bool durable) REQUIRES(mutex_);

  // joining.cc
  Status CheckProtocol(const PollRequest& request) const;
  Status CheckAble(const std::string& client_id, const std::vector<DatasetOffer>& datasets) const;
  // Makes the caller a member; if it is an aggregator, the clients that it names, except for those that are
  // refused.
  Status Admit(const PollRequest& request, std::vector<RefusedName>* refused_names) EXCLUDES(mutex_);
  // Adds the names to `fresh` that have no row yet.
  Status AdmitAggregator(const PollRequest& request, std::vector<RefusedName>* refused_names,
                         std::vector<JoiningNames::Name>* fresh) REQUIRES(mutex_);
  Status AdmitClient(const PollRequest& request, std::vector<JoiningNames::Name>* fresh) REQUIRES(mutex_);
  Status MayServe(const std::string& aggregator, const std::string& client_id) const REQUIRES(mutex_);
  Status MayJoin(const std::string& client_id) const REQUIRES(mutex_);
  Status WriteNames(const std::vector<JoiningNames::Name>& names) EXCLUDES(mutex_);

  const std::string run_id_;
  const CoordinatorOptions& options_;
  const RunParts& parts_;
  const bool resumed_;
  RunHistory& history_;
  const RunClock& clock_;
  RunEvents& events_;
  const DistrustedSites& distrusted_;
  ClientRounds& rounds_;
  JoiningNames joining_;
  RateLimitedLog refusals_;  // each is a row of the history

  mutable Mutex mutex_;
  ClientBook book_ GUARDED_BY(mutex_);
  AggregatorSessions aggregators_ GUARDED_BY(mutex_);
  std::unordered_set<std::string> joining_names_ GUARDED_BY(mutex_);  // each counts towards the population
  // By site: the outcomes of its clients' tasks still to report, if clients have states or it is an aggregator.
  std::unordered_map<std::string, std::vector<TaskOutcome>> untold_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
