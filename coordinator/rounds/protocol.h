// Events of a run, and the actions that answer them. Values without payload: updates and models are named, never
// carried.
//
//   ClientsJoined, Tick ──→ Offer* WakeAt        a cohort is drawn
//   Polled ──→ Offer (again) | AskToWait | Refuse
//   SitePolled ──→ Cancel* HandOverPartial* Offer (again)* | AskToWait | Refuse     one poll, many answers
//   StepReported ──→ Stage | Refuse       an upload begins, or a client reports a failure
//   StageDone ──→ Fold | Refuse           it is complete and checked, or not
//   PartialReported ──→ Fold* | Refuse    a site submits the partial sum of its tasks
//   FoldDone, Merged ──→ HandOverPartial* | Close (Commit | Abandon)     when only held leases are awaited, or none
//   SiteLost ──→ nothing                  the site's tasks are offered again
//   Tick ──→ Close (Commit | Abandon)     at the deadline
//   CommitDone ──→ Offer* WakeAt | nothing        after Commit and after Abandon: the next may begin
//
// Beside training, separate clients may measure a version, as RunRules::evaluation states. Everything about it is as
// above, with kEvaluate as the lease's kind, and no event of one kind affects the other. Only the end differs from
// training's Commit or Abandon:
//
//   … ──→ Close Evaluated       enough have reported, or too few and no others are awaited
//   EvaluationDone ──→ Offer* WakeAt | nothing       its rows are on their way: the next one may begin, or the run end
//
// A client reports each step of a task with steps (StepReported, Stage, StageDone). All steps but the last end at a
// barrier. When enough clients have reached it, Offer gives each of them its next step. Where the sum is made before
// the last step (BufferRules::sum_step), StageDone is answered by Fold at that step alone, and the end is settled from
// outside:
//
//   SumSettled ──→ Close (Commit | Abandon)     the sum can be read, or never will be
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/rounds/lease_book.h"
#include "federated/tasks/task.h"

namespace rivulet {

// --- Events
// -----------------------------------------------------------------------------------------------------------

struct ClientsJoined {
  std::vector<std::string> client_ids;
  std::string via;
};  // known from now on; a repeated name counts once, and its latest route applies
struct ClientLeft {
  std::string client_id;
  std::string reason = "it left the run";  // why its lease ends
};                                         // no candidate any more; its lease is dropped
struct Polled {
  std::string client_id;
};  // a site of one client
// A site asks for tasks of the clients that it serves, and lists the tasks it has.
struct SitePolled {
  std::string site;
  enum class Serves : uint8_t {
    kItself,  // the client of the same name
    kAny,     // every client: a worker of a simulation
    kNames,   // those that are reached through it: an aggregator
  } serves = Serves::kItself;
  // A lease of this site that is neither held nor listed here is given to it again, because its process was restarted.
  // A worker lists a held task once.
  struct Holding {
    TaskId task;
    bool held = false;  // aggregated into the site's own partial sum
    int step = 0;
  };
  std::vector<Holding> working_on;
  int64_t want = 1;  // the number of tasks that it would take now
  // An aggregator's clients that have called it since its last poll. It reports for each of its tasks, in every poll,
  // whether it is held; a task that is held no more is being trained again. A task that it has and does not list is
  // given to it again if its client is among these.
  std::vector<std::string> names = {};
};
struct StepReported {
  std::string client_id;
  TaskId task;
  int step = 0;
  bool failed = false;  // the client cannot do it; otherwise its upload begins
  std::string reason;   // of `failed`
};
struct StageDone {
  TaskId task;
  bool ok = true;
  std::string reason;
};  // staged and checked, or the reason for its refusal
struct FoldDone {
  TaskId task;
  bool ok = true;
  std::string reason;
};
struct PartialReported {
  std::string site;
  std::vector<TaskId> tasks;  // all tasks in the sum, each once; all are answered with a Fold, or none
  // An earlier process had accepted it, which makes this site the holder of its offered tasks.
  bool kept = false;
};
// All leases of a site, in hand or held, are lost to it: its partial sum is lost or was refused, which is not its
// clients' fault. All of them are offered again.
struct SiteLost {
  std::string site;
};
struct Merged {
  std::vector<TaskId> tasks;  // of one PartialReported
  bool ok = true;
  std::string reason;
};  // a FoldDone for each, at once
// The end of a sum in steps: it can be read, or the steps' answers are too few or wrong.
struct SumSettled {
  bool ok = true;
  std::string reason;  // why not
  TaskKind kind = TaskKind::kTrain;
};
struct CommitDone {
  bool ok = true;
  std::string reason;
  // Clients with updates in the committed version, and their figures for the next selection.
  struct Reported {
    std::string client_id;
    int64_t examples = 0;
    double loss = 0;
    double duration = 0;  // Participation's
  };
  std::vector<Reported> reported = {};
  bool last = false;  // no round follows, whatever was planned: the run ends early
};                    // of the last Commit or Abandon: the version exists, written or not; not ok ends the run
struct EvaluationDone {
  bool ok = true;
  std::string reason;
};  // of the last Evaluated; not ok ends the run
struct VersionFailed {
  std::string reason;
};  // a finished version cannot be written; the run ends
struct Tick {};
struct Operator {
  enum class Command : uint8_t {
    kStop,         // at once; the version that is being committed is still made
    kFinishRound,  // as kStop, once the open attempt has closed
    kPause,        // no cohort is drawn; an open attempt continues to its end
    kResume,
  } command = Command::kStop;
};
using Event =
    std::variant<ClientsJoined, ClientLeft, Polled, SitePolled, StepReported, StageDone, FoldDone, PartialReported,
                 Merged, SiteLost, SumSettled, CommitDone, EvaluationDone, VersionFailed, Tick, Operator>;

// --- Actions
// ----------------------------------------------------------------------------------------------------------

struct Offer {
  Lease lease;
  int64_t round = 0;  // the round that is trained; for an evaluation the version that is measured
  int64_t attempt = 1;
  bool again = false;
  uint64_t gather = 0;  // tasks with equal numbers may share a partial sum
};                      // again: answers a poll
struct Cancel {
  TaskId task;
};  // answers a poll that listed it: another site has it or it is over; the site's result is of no use
// Requests a site's partial sum, because nothing else is awaited. It is sent to each holder once, whatever event caused
// it, to wake waiting sites, and again in the answer to each poll of a holder.
struct HandOverPartial {
  std::string site;
  uint64_t gather = 0;  // Offer's
  std::vector<TaskId> tasks;
};
struct AskToWait {
  std::string client_id;  // or the site
  std::string message;
  int64_t wait_ms = 0;
};
struct Refuse {
  enum class Why : uint8_t {
    kUnknown,    // no such name, or no such task in the open attempt
    kOver,       // the run has ended
    kDuplicate,  // this task's update is aggregated, or being aggregated
    kBusy,       // an upload of this task is being checked; retry later
    kLate,       // this task is already resolved otherwise; `reason` has details
  };
  std::string client_id;  // or the site
  TaskId task;            // "" if a poll is refused; for a partial sum, the task that caused its refusal
  Why why = Why::kUnknown;
  std::string reason;
};
struct Stage {
  TaskId task;
};
struct Fold {
  TaskId task;
};
struct Close {
  int64_t round = 0;  // as Offer's
  int64_t attempt = 1;
  TaskKind kind = TaskKind::kTrain;
};  // nothing more is staged for this attempt
struct Commit {
  int64_t round = 0;
  int64_t attempt = 1;
  std::vector<TaskId> tasks;  // in the order drawn
  VirtualTime at = 0;         // with ordered arrivals: when the version is made, after the last arrival or the deadline
};
struct Abandon {
  int64_t round = 0;
  int64_t attempt = 1;
  std::string reason;
  bool last = false;
};  // last: the run fails
struct Evaluated {
  int64_t version = 0;
  int64_t attempt = 1;
  std::vector<TaskId> tasks;  // with aggregated reports, in the order drawn
  std::string reason;         // why these are too few; "" if they are enough
};
struct WakeAt {
  TimeMs time = 0;
};  // send a Tick then
using Action = std::variant<Offer, Cancel, HandOverPartial, AskToWait, Refuse, Stage, Fold, Close, Commit, Abandon,
                            Evaluated, WakeAt>;

// Why a late task is dropped, although nothing is wrong with it: enough updates have arrived.
std::string EnoughWithout(TaskKind kind);

// The number that tasks must share to be in one partial sum: those of one attempt, which are of one kind and start from
// one version. A site that still holds a partial sum of an abandoned attempt must not add the next attempt's tasks to
// it. `round` is as in Offer, below 2^32, and `attempt` below 2^31. If tasks outlive attempts, the tasks of one base
// version share it: the round after that version, attempt 1.
uint64_t GatherOf(int64_t round, int64_t attempt, TaskKind kind = TaskKind::kTrain);

// The letter before the number in a task's name and in log lines: r (round) or e (evaluated version).
char Letter(TaskKind kind);

// One line without the run's id, equal in simulation and deployment: "offer r1 a1 client-00003#0", "fold r1 a1
// client-00003#0", "commit r1 a1 client-00001#0 client-00003#0"; for an evaluation "offer e1 a1 client-00003#0".
// `run_id` is the prefix of the tasks' names.
std::string Describe(const Action& action, std::string_view run_id);

}  // namespace rivulet
