// The rounds of one run as a pure machine: events in, actions out. No payload, clock, I/O or randomness inside, except
// the seeded stream of the selection, which is a pure function of (seed, round, attempt, candidates). So the same
// machine drives a simulation and a deployment, and a restart that gives it the same start draws the same cohort.
//
// Its parts are a book of leases, a buffer for the next version, and policies. At most `in_flight` leases are active at
// a time, and `updates_per_version` aggregated updates make a model version. With in_flight = cohort =
// updates_per_version it is the classic synchronous round. With more in flight than needed it over-selects, and the
// first updates make the version.
//
//   Waiting → Training ─→ Committing → Training …            → Finished
//                  └────→ Abandoning → Training (next attempt) … → Failed
//
// If a simulation gives each task a duration, arrivals are ordered by (virtual time, name) and known before any
// training (virtual_arrivals.cc). At the start of a version the earliest arrivals become due, as many as the version
// takes. If leases outlive versions, the next draw follows each as if it had arrived. Sites receive due leases alone,
// in any order and on any number of threads; a failed one lets the next arrival become due. So the content of a version
// is a function of the draws, durations and failures, and of no clock. Late updates are not trained at all. If the
// durations are those of devices (fleet.h), these may also be absent or vanish; deadline and leases then use their
// clock.
//
// Beside training, versions are measured one after the other, each by a separate cohort with its own draw, leases,
// ordinals and replacement. A client may hold a lease of each kind, and measuring changes no draw of training. A
// version never waits for an evaluation. The end of the run does (Evaluating), up to the evaluation's deadline. An
// evaluation has one attempt.
//
// A site may serve many clients and aggregate their updates into its own partial sum. Its leases are then held: an
// attempt that waits for nothing else asks the holders, and takes each partial sum as a whole. A partial sum cannot be
// divided again, so a site gets no more tasks than the version still has room for. An aggregator is a site of the
// clients that are connected through it, and of no other; it reports the presence of each.
//
// Not thread-safe. Every call returns at once. A poll costs the leases it touches, the start and end of an attempt its
// leases. Nothing walks all members.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/rounds/fleet.h"
#include "coordinator/rounds/lease_book.h"
#include "coordinator/rounds/members.h"
#include "coordinator/rounds/policy.h"
#include "coordinator/rounds/protocol.h"
#include "coordinator/rounds/update_buffer.h"
#include "engine/base/status.h"

namespace rivulet {

// Rules for a run's draws: their time, their base version, and the number of updates that make the next version.
struct RoundPolicy {
  // When a lease is drawn, and so its base version. kCommitted: all leases of a version together, once the previous one
  // is committed. kLatest: each one when another has ended, from the newest version; open leases continue towards the
  // next version when one is made (buffered asynchronous aggregation, Nguyen et al. 2022).
  enum class BasePolicy : uint8_t { kCommitted, kLatest };
  int64_t in_flight = 1;
  int64_t updates_per_version = 1;
  BasePolicy base_policy = BasePolicy::kCommitted;
  // The most versions made between a lease's base and the one with its update; a lease that is too stale for the next
  // version is dropped. 0 under kCommitted.
  int64_t max_staleness = 0;
  // Whether a lease that ends without an update before the deadline is replaced by the next name of the draw. A client
  // that failed, or whose update was refused, is then not asked again for the same version. So the clients asked are a
  // function of the draw and of the number of such ends, in any order.
  bool replace = false;
};

// Selection of the versions that clients measure, and the number of clients.
struct EvaluationRules {
  int64_t every = 0;        // every so many versions, and the last one; 0: none
  int64_t clients = 1;      // asked for each
  int64_t min_reports = 0;  // with which it counts; 0: all clients that were asked
};

struct RunRules {
  std::string run_id;
  uint64_t seed = 1;
  int64_t rounds = 1;
  RoundPolicy policy;
  int64_t min_clients = 1;   // names known before the first selection
  int64_t min_reports = 0;   // aggregated updates that make a version; 0: as many as the cohort wants
  int64_t deadline_ms = 0;   // of an attempt; 0: none. Not of training under kLatest, which max_staleness limits
  int64_t max_attempts = 3;  // at one round, by this machine; 0: as many as it takes
  int64_t lease_ms = 0;      // a lease lapses after so long a silence of its site; 0: never
  int64_t presence_ms = 0;   // a client that was silent for longer is not drawn; 0: all may be
  Retry retry;
  // The duration of a client's task on a virtual clock that orders arrivals; null: arrivals are not ordered. A pure
  // function, at least 1.
  std::function<int64_t(const std::string& client_id)> task_time;
  // Devices that give these durations instead of `task_time`; null: none. An attempt's deadline, except under kLatest,
  // and the silence until a lost device is noticed, are in microseconds of their clock; 0: none, and at once.
  std::shared_ptr<const Fleet> fleet;
  VirtualTime fleet_deadline = 0, fleet_lease = 0;
  bool arrivals_are_ordered() const { return task_time != nullptr || fleet != nullptr; }
  std::shared_ptr<const Selector> selector;  // of training's cohorts; null: uniform
  // Training's cohorts follow from this key and the version, so all attempts at a version ask the same set; null: from
  // the seed, the version and the attempt.
  std::shared_ptr<const privacy::NoiseKey> cohort_key;
  // Which clients may be drawn for a round, or to measure its version, besides presence and exclusion; null: all. A
  // pure function.
  std::function<bool(const std::string& client_id, int64_t round)> available;
  std::string wanted_as;       // suffix for the members that are waited for: " tagged 'icu'"
  EvaluationRules evaluation;  // deadline_ms, lease_ms, presence_ms and policy.replace are as for training
  std::vector<BufferRules::Barrier> barriers;  // of tasks of both kinds; empty: they have one step
  int sum_step = -1;                           // as in BufferRules
  // For a selector with a rate: an empty sample makes a version too, without updates. So does a sample of absent
  // members, after a wait of `deadline_ms`, or at once if waiting changes nothing.
  bool may_be_empty = false;
};

struct RunStart {
  std::shared_ptr<Population> population;  // its names are members from the start; null: members join
  int64_t committed_round = 0;
  int64_t attempt = 1;  // the first one at round committed_round + 1
  // Offset of this machine's attempt numbers in tasks' names, so that no two processes of a run name tasks in steps
  // alike. Draws use the numbers without it, so they equal those of the interrupted run.
  int64_t attempts_before = 0;
  struct Candidate {
    std::string client_id;
    int64_t from_round = 1;  // may be drawn from this (round, attempt) on: a name that joined during an attempt that is
    int64_t from_attempt = 1;  // run again was not among that attempt's candidates
  };
  std::vector<Candidate> candidates;
  // Only for clients with updates in versions, and if RunRules::selector remembers.
  std::map<std::string, Participation> participations;
  std::vector<std::pair<std::string, int64_t>> leases;  // (client_id, leases at the committed version so far)
  // The first ordinal. If a version depends on the order of arrivals, as under kLatest, a process makes
  // other versions than one that failed before it could write its own, and must name its tasks
  // differently.
  uint16_t first_ordinal = 0;
  // Versions that are still to be measured, ascending: an interrupted evaluation begins again.
  std::vector<int64_t> evaluations;
  VirtualTime virtual_now = 0;  // of the committed version
};

class RunMachine {
 public:
  // The phase of training; kEvaluating: all rounds are committed, and an evaluation is still open.
  enum class Phase : uint8_t {
    kWaiting,
    kTraining,
    kCommitting,
    kAbandoning,
    kEvaluating,
    kFinished,
    kFailed,
    kStopped
  };

  // INVALID_ARGUMENT names the field that is out of range. Nothing is drawn before the first event.
  static StatusOr<RunMachine> Create(RunRules rules, RunStart start);
  // The machine as it was at Save, under the same rules and with the same population, an open
  // one as before any name joined. DATA_LOSS: not a snapshot, or a damaged one.
  // FAILED_PRECONDITION: the snapshot is of another run or another version. Times are stored
  // relative to `now`.
  static StatusOr<RunMachine> Restore(RunRules rules, std::string_view snapshot,
                                      std::shared_ptr<Population> population = nullptr, TimeMs now = 0);
  std::string Save(TimeMs now = 0) const;
  // The same for another process at its time `now`, whose clock may differ. Tasks that were given out or aggregated
  // since the last version are offered again at the first event, with the same ids and base versions, and silence
  // counts from `now`. From `start`, read from rows, it takes the members and the due evaluations. Errors as Restore,
  // and FAILED_PRECONDITION if `start` has another round or attempt.
  static StatusOr<RunMachine> Resume(RunRules rules, std::string_view snapshot, RunStart start, TimeMs now);

  // `room` is memory for the answer, empty; callers may pass that of the last answer.
  std::vector<Action> On(const Event& event, TimeMs now, std::vector<Action> room = {});

  Phase phase() const { return phase_; }
  bool over() const { return phase_ >= Phase::kFinished; }
  bool paused() const { return paused_; }
  bool stopping() const { return stopping_; }            // stops when the open attempt has closed
  const std::string& reason() const { return reason_; }  // of kFailed and kStopped
  int64_t committed_round() const { return committed_round_; }
  int64_t round() const { return committed_round_ + 1; }  // the open one
  int64_t attempt() const { return attempt_; }
  // The leases of the open attempt or evaluation, or the one that is being committed, in the order drawn.
  std::vector<Lease> leases(TaskKind kind = TaskKind::kTrain) const;
  // Finds a lease in the open attempt or evaluation; null: none. Valid until the next event.
  const Lease* LeaseOf(const std::string& client_id, TaskKind kind = TaskKind::kTrain) const;
  const Lease* FindLease(const TaskId& task) const;
  TimeMs deadline() const;  // of the open attempt; 0: none
  // Whether an open task, or one still to be drawn, starts from a version before the newest one, so that its model is
  // still needed.
  bool Needs(int64_t version) const;
  // The oldest version that is or will be measured; in a stopped run, at the time of the stop. Nullopt: none.
  std::optional<int64_t> oldest_to_measure() const;
  // Base versions of training tasks: with the newest version and Save's bytes, all that a restart needs.
  std::vector<int64_t> NeededVersions() const;  // ascending
  bool knows(const std::string& client_id) const { return members_.Knows(client_id); }
  // The aggregator through which the client is reached; "": none.
  const std::string& via(const std::string& client_id) const { return members_.via(client_id); }
  int64_t known_clients() const { return members_.size(); }
  bool remembers() const { return members_.remembers(); }  // whether it uses CommitDone::reported
  // Whether a client that joined after `others` new names would become a member: see
  // Population::MayInsert.
  Status MayJoin(const std::string& client_id, int64_t others) const { return members_.MayJoin(client_id, others); }
  // Gives the first draw of a name that joins now: RunStart::Candidate after a restart.
  std::pair<int64_t, int64_t> next_draw() const;
  // Milliseconds between heartbeats of a site with a task.
  int64_t heartbeat_ms() const;
  std::string Awaited(TimeMs now);  // text for a client without a task: "1 of 2 clients; round 1 starts …"
  int64_t CountInState(Lease::State state, TaskKind kind = TaskKind::kTrain) const;
  int64_t offered() const { return book_.CountOffered(TaskKind::kTrain) + book_.CountOffered(TaskKind::kEvaluate); }
  // The recently seen sites of many clients, with the time of their last poll.
  const std::map<std::string, TimeMs>& sites() const { return presence_.seen_sites(); }

 private:
  using Actions = std::vector<Action>;
  // Leases and buffer for one goal: the next version, or an evaluation.
  struct Gathering {
    TaskKind kind = TaskKind::kTrain;
    int64_t version = 1;  // that it makes or measures
    int64_t attempt = 1;
    UpdateBuffer buffer;
  };

  RunMachine(RunRules rules, std::shared_ptr<Population> population)
      : rules_(std::move(rules)),
        members_(rules_.seed, std::move(population), rules_.selector, rules_.policy.in_flight, rules_.cohort_key),
        presence_(rules_.presence_ms) {}

  void Handle(const ClientsJoined& event, TimeMs now, Actions& actions);
  void Handle(const ClientLeft& event, TimeMs now, Actions& actions);
  void Handle(const Polled& event, TimeMs now, Actions& actions);
  void Handle(const SitePolled& event, TimeMs now, Actions& actions);
  void Handle(const StepReported& event, TimeMs now, Actions& actions);
  void Handle(const StageDone& event, TimeMs now, Actions& actions);
  void Handle(const FoldDone& event, TimeMs now, Actions& actions);
  void Handle(const PartialReported& event, TimeMs now, Actions& actions);
  void Handle(const Merged& event, TimeMs now, Actions& actions);
  void Handle(const SiteLost& event, TimeMs now, Actions& actions);
  void Handle(const SumSettled& event, TimeMs now, Actions& actions);
  void Handle(const CommitDone& event, TimeMs now, Actions& actions);
  void Handle(const EvaluationDone& event, TimeMs now, Actions& actions);
  void Handle(const VersionFailed& event, TimeMs now, Actions& actions);
  void Handle(const Tick& event, TimeMs now, Actions& actions);
  void Handle(const Operator& event, TimeMs now, Actions& actions);

  int64_t names_wanted() const;
  Members::DrawAt DrawnAs() const { return {round(), attempt_ - attempts_before_}; }
  // Whether all members are present from the start and never away, so that waiting changes nothing.
  bool nobody_else_comes() const {
    return (rules_.available || rules_.fleet != nullptr) && rules_.presence_ms == 0 && !members_.open();
  }
  int64_t least() const;                   // updates that a version needs, and an attempt must be able to get
  void Heard(LeaseSlot slot, TimeMs now);  // records that its site has called
  bool LastAttempt() const;
  bool SamplesNobody();  // among all members, present or not
  // Whether the wait for a draw of absent members is over; else sets a wake for its end.
  bool WaitedForAbsent(TimeMs now, Actions& actions);
  // Whether nothing is open and none may be drawn: received updates wait for the end of the pause.
  bool Rests(const Gathering& gathering) const;
  bool continuous() const { return rules_.policy.base_policy == RoundPolicy::BasePolicy::kLatest; }
  bool samples() const { return rules_.selector != nullptr && rules_.selector->rate() < 1; }
  bool ordered() const { return rules_.arrivals_are_ordered(); }
  uint64_t GatherOf(const Lease& lease, const Gathering& in) const;
  Offer OfferOf(LeaseSlot slot, bool again);
  // Null if nothing of this kind is being gathered.
  Gathering* Open(TaskKind kind);
  const Gathering* Open(TaskKind kind) const { return const_cast<RunMachine*>(this)->Open(kind); }
  Gathering& Of(const Lease& lease) { return lease.kind == TaskKind::kTrain ? *training_ : *evaluation_; }
  bool Open(const Lease& lease) const { return Open(lease.kind) != nullptr; }
  // Opens the next gathering of both kinds, as far as it may begin.
  void OpenNext(TimeMs now, Actions& actions);
  // One round's buffer is open at a time. OpenTraining does nothing if too few clients are available.
  void OpenTraining(TimeMs now, Actions& actions);
  void OpenEvaluation(TimeMs now, Actions& actions);
  BufferRules RulesAt(TaskKind kind, TimeMs deadline) const;
  std::vector<std::string> Draw(TaskKind kind, int64_t count, TimeMs now);
  void AddLeases(Gathering& to, std::vector<std::string> client_ids, TimeMs now, Actions& actions);
  void Replace(Gathering& in, TimeMs now, Actions& actions);  // after a lease ended without an update
  // virtual_arrivals.cc, for ordered arrivals.
  void LetArrive(TimeMs now, Actions& actions);  // as many as the version lacks
  void SetArrival(Lease& lease) const;           // of a newly drawn one
  void LetFleetDeadlinePass();
  // Moves the clock on until an absent device is back; false: none will be, or it did so `waits` times in vain.
  bool WaitForDevices(int waits);
  void CloseBuffer(std::optional<Gathering>& gathering);  // removes its leases
  void CarryOver();                                       // moves open leases from the closed buffer to the next one
  void GoOn(TimeMs now, Actions& actions);                // with carried-over leases, or those open before a restart
  void Judge(Gathering& gathering, TimeMs now, Actions& actions);
  std::vector<TaskId> Folded(const UpdateBuffer& buffer) const;  // sorted
  void BeginNextStep(Gathering& gathering, TimeMs now, Actions& actions);
  void Evaluate(const Gathering& gathering, bool enough, Actions& actions);
  void LetDeadlinePass(Gathering& gathering, TimeMs now, Actions& actions);
  void Route(const std::string& client_id, const std::string& via, TimeMs now);
  void OfferAgain(LeaseSlot slot, TimeMs now);  // offers its site's lease again
  // The leases that a poll lists: at their current step, or one step behind.
  struct Named {
    std::set<LeaseSlot> same_step, behind;
  };
  void GiveLeasesOfAggregator(const SitePolled& poll, const Named& named, TimeMs now, Actions& actions);
  void GiveLeases(const SitePolled& poll, const Named& named, TimeMs now, Actions& actions);
  void AskHolders(const Gathering& gathering, const std::string* site, Actions& actions) const;  // null: all
  void DropOffered(TaskKind kind, const std::string& reason);
  // held, reported: whether to drop those too that sites hold, or that wait at a barrier.
  void DropOpen(const Gathering& gathering, const std::string& reason, bool held = true, bool reported = true);
  void DropLapsed(const Gathering& gathering);
  void LetLapse(TimeMs now, Actions& actions);  // leases whose site was silent for too long
  void OfferLapsed(TimeMs now);                 // to a site that has come
  bool MayComeBack(const Lease& lease) const;   // a lapsed lease, to its client
  bool IsStillHad(const Lease& lease) const;    // an offered lease, at a site that lists it
  void Arm(TimeMs now, Actions& actions);       // WakeAt the next lease end or deadline
  void Add(Lease lease);
  void Take(LeaseSlot slot, const std::string& site, TimeMs now);
  void Release(LeaseSlot slot, Lease::State state);
  void Extend(LeaseSlot slot, TimeMs now);
  void SetState(LeaseSlot slot, Lease::State state, std::string reason = "");
  void End(Phase phase, std::string reason);

  RunRules rules_;
  Phase phase_ = Phase::kWaiting;
  bool stopping_ = false;  // ends once the current commit is done
  bool paused_ = false;    // in this process alone: a resumed run continues
  std::string reason_;
  int64_t committed_round_ = 0;
  int64_t attempt_ = 1;
  int64_t attempts_before_ = 0;  // as in RunStart
  int64_t attempts_tried_ = 0;   // at this round, by this machine
  TimeMs not_before_ = 0;        // earliest time of the next attempt
  TimeMs absent_until_ = 0;      // until when a sample of absent members is waited for; 0: none is
  TimeMs armed_ = 0;             // the last WakeAt of open gatherings; 0: none
  Members members_;
  std::set<std::string> left_;               // removed members: the run does not wait for them to come
  std::map<std::string, int64_t> ordinals_;  // leases at the committed version so far
  uint16_t first_ordinal_ = 0;
  LeaseBook book_;
  VirtualTime virtual_now_ = 0;                                          // with ordered arrivals: time of the last one
  VirtualTime fleet_deadline_ = 0;                                       // of the open attempt; 0: none
  std::set<std::tuple<VirtualTime, std::string, LeaseSlot>> under_way_;  // future arrivals: time and client
  std::optional<Gathering> training_;                                    // the open attempt, until its rows are written
  std::optional<Gathering> made_;        // the closed attempt beside open training, until its rows are written
  std::optional<Gathering> evaluation_;  // the open one, until its rows are written
  std::deque<int64_t> due_;              // versions to be measured after it
  Presence presence_;
  ExcludedClients sitting_out_;
  bool resumed_ = false;  // and no event has come since
};

}  // namespace rivulet
