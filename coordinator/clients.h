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

// The rounds, as clients need them. Each call is atomic; most come under the lock of Clients, which is taken before any
// of theirs.
class ClientRounds {
 public:
  virtual ~ClientRounds() = default;
  // Somebody calls: the run begins, and deadlines that are due pass. False: the run is over.
  virtual bool Begin() = 0;
  virtual bool Over() = 0;
  virtual bool Knows(const std::string& client_id) = 0;
  virtual std::string ViaOf(const std::string& client_id) = 0;
  // As RunMachine::MayJoin.
  virtual Status MayJoin(const std::string& client_id, int64_t others) = 0;
  virtual std::pair<int64_t, int64_t> NextDraw() = 0;
  // These are members from now on, and reached through `via`. Until the run has begun, what it awaits then; else "".
  virtual std::string Join(std::vector<std::string> client_ids, const std::string& via) = 0;
  virtual void LoseSite(const std::string& site) = 0;
  // The member leaves, for `reason`.
  virtual void Leave(const std::string& client_id, const std::string& reason) = 0;
  virtual int64_t Round() = 0;
  // Blocks while updates are counted that were acknowledged before a restart.
  virtual void AwaitRecovered() = 0;
  // Fills `reply` but for its outcomes. False: updates are being counted; nothing was answered.
  virtual bool Answer(const PollRequest& request, const std::set<std::string_view>& refused, PollReply* reply) = 0;
  // Whether what the task's client kept before it is needed still, for a version that is measured with that.
  virtual bool Superseding(const TaskId& task) = 0;
};

// Thread-safe. Its lock comes before that of the rounds; it is not held over I/O.
class Clients {
 public:
  // All must outlive it.
  Clients(std::string run_id, const CoordinatorOptions& options, const RunParts& parts, bool resumed,
          RunHistory& history, const RunClock& clock, RunEvents& events, const DistrustedSites& distrusted,
          ClientRounds& rounds);

  // As CoordinatorApi::Poll, of a caller of this run.
  StatusOr<PollReply> Poll(const PollRequest& request) EXCLUDES(mutex_);
  // False: no member.
  bool Remove(const std::string& client_id, const std::string& reason) EXCLUDES(mutex_);

  // The outcome of the client's last task; of a resumed run the history is asked, once.
  std::optional<TaskOutcome> LastOutcome(const std::string& client_id) EXCLUDES(mutex_);
  // The result of an update whose task is not open any more. NOT_FOUND, with `reason`: neither memory nor the history
  // knows that this client had the task.
  StatusOr<SubmitResult> ResultOf(const std::string& client_id, const TaskId& task, const std::string& reason)
      EXCLUDES(mutex_);

  // Of a closed attempt, whether it is written or not: how its tasks ended.
  void Closed(const PendingAttempt& attempt, std::vector<std::pair<std::string, TaskOutcome>> outcomes)
      EXCLUDES(mutex_);
  // The same when it is written: which tasks are in durable versions.
  void Written(const PendingAttempt& attempt) EXCLUDES(mutex_);
  // As ClientBook::TakeSeen.
  std::vector<std::pair<std::string, int64_t>> TakeSeen(const ClosedAttempt& attempt, bool finishes_run)
      EXCLUDES(mutex_);
  // `draw` runs while no row of a name is being written: the row says from which draw on its name counts.
  template <typename Draw>
  void WhileNobodyJoins(const Draw& draw) EXCLUDES(mutex_) {
    joining_.WhileNoneIsWritten(draw);
  }
  bool has_aggregators() const EXCLUDES(mutex_);
  // Tells how many refusals were counted and not told, before the run ends.
  void TellRestOfRefusals() { refusals_.TellRest(); }

 private:
  // clients.cc
  void TakeOutcomes(const PollRequest& request, PollReply* reply) REQUIRES(mutex_);
  void TellSites(const PendingAttempt& attempt, bool durable) REQUIRES(mutex_);

  // joining.cc
  Status CheckProtocol(const PollRequest& request) const;
  Status CheckAble(const std::string& client_id, const std::vector<DatasetOffer>& datasets) const;
  // Makes a caller that speaks for itself a member; of an aggregator, those whom it names, but for those who are turned
  // away.
  Status Admit(const PollRequest& request, std::vector<RefusedName>* refused_names) EXCLUDES(mutex_);
  // What is left to be written are `fresh`.
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
  std::unordered_set<std::string> joining_names_ GUARDED_BY(mutex_);  // each has a place in the population
  // By site, outcomes of the tasks that it did for others, where these keep something, or it is an aggregator.
  std::unordered_map<std::string, std::vector<TaskOutcome>> untold_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
