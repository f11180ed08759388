// Events of a run, and the actions that answer them. Values without payload: updates and models are named, never
// carried.
//
//   ClientsJoined, Tick ──→ Offer* WakeAt        a cohort is drawn
//   Polled ──→ Offer (again) | AskToWait | Refuse
//   SitePolled ──→ Cancel* HandOverPartial* Offer (again)* | AskToWait | Refuse     one poll, many answers
//   StepReported ──→ Stage | Refuse       an upload begins, or a client gives up
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
//   … ──→ Close Evaluated       enough have reported, or too few and nobody else is awaited
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
};  // known from now on; a name twice is once, and is reached as it was told last
struct ClientLeft {
  std::string client_id;
  std::string reason = "it left the run";  // of its lease's end
};                                         // no candidate any more; its lease is dropped
struct Polled {
  std::string client_id;
};  // a site of one name
// A site asks for tasks of the names it serves, and says what it has in its hands.
struct SitePolled {
  std::string site;
  enum class Serves : uint8_t {
    kItself,  // the client of its own name
    kAny,     // every client: a worker of a simulation
    kNames,   // those that are reached through it: an aggregator
  } serves = Serves::kItself;
  // A lease of this site that is neither held nor named here is offered to it again: its process was restarted. What is
  // held needs to be said once.
  struct Holding {
    TaskId task;
    bool held = false;  // folded into the site's own partial
    int step = 0;
  };
  std::vector<Holding> working_on;
  int64_t want = 1;  // tasks that it would take now
  // Of an aggregator: those of its clients that have called it since its last poll. It says of every task that it has
  // whether it is held, each time; one that is held no more is being done again. What is in its hands and not named it
  // has again if its client is among these.
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
};  // staged and checked, or why it is refused
struct FoldDone {
  TaskId task;
  bool ok = true;
  std::string reason;
};
struct PartialReported {
  std::string site;
  std::vector<TaskId> tasks;  // all that are folded in it, each once; each is answered with a Fold, or none
  // The process before this one had accepted it: tasks that are offered are this site's by that.
  bool kept = false;
};
// Whatever a site has, in hand or held, is not coming from it: its partial is lost or was refused, and the names it
// works for are not to blame. All of it is offered again.
struct SiteLost {
  std::string site;
};
struct Merged {
  std::vector<TaskId> tasks;  // of one PartialReported
  bool ok = true;
  std::string reason;
};  // a FoldDone for each, at once
// Of tasks with steps: the sum can be read, or what the steps brought is too little, or wrong.
struct SumSettled {
  bool ok = true;
  std::string reason;  // why not
  TaskKind kind = TaskKind::kTrain;
};
struct CommitDone {
  bool ok = true;
  std::string reason;
  // Of those whose updates are in the version that was committed: what the next selection may go by.
  struct Reported {
    std::string client_id;
    int64_t examples = 0;
    double loss = 0;
    double duration = 0;  // Participation's
  };
  std::vector<Reported> reported = {};
  bool last = false;  // no round follows, whatever was planned: the version is all that was wanted
};  // of the last Commit or Abandon: the version is there, whether or not it is written; not ok ends the run
struct EvaluationDone {
  bool ok = true;
  std::string reason;
};  // of the last Evaluated; not ok ends the run
struct VersionFailed {
  std::string reason;
};  // one that was ready cannot be written; the run ends
struct Tick {};
struct Operator {
  enum class Command : uint8_t {
    kStop,         // at once; what is being committed is still made
    kFinishRound,  // as kStop, once the open attempt has closed
    kPause,        // no cohort is drawn; what is out goes on, and an open attempt to its end
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
  int64_t round = 0;  // that is trained; of an evaluation the version that is measured
  int64_t attempt = 1;
  bool again = false;
  uint64_t gather = 0;  // what may share a partial with it: equal numbers
};                      // again: answers a poll
struct Cancel {
  TaskId task;
};  // answers a poll that named it: it is no longer this site's; what was made of it is worth nothing
// Asks a site for its partial: nothing else is awaited. Said to each holder once, whoever's event it was, so that one
// that waits can be woken; and again in the answer to each poll of a holder.
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
    kDuplicate,  // this task's update is folded, or being folded
    kBusy,       // an upload of this task is being checked; ask again
    kLate,       // this task is resolved otherwise; reason says how
  };
  std::string client_id;  // or the site
  TaskId task;            // "" when a poll is refused; of a partial the task for which all of it is
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
  VirtualTime at = 0;  // where arrivals are ordered: of the last of them, or of the deadline, and what a version takes
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
  std::vector<TaskId> tasks;  // whose reports are folded, in the order drawn
  std::string reason;         // why these are too few; "" where they are enough
};
struct WakeAt {
  TimeMs time = 0;
};  // send a Tick then
using Action = std::variant<Offer, Cancel, HandOverPartial, AskToWait, Refuse, Stage, Fold, Close, Commit, Abandon,
                            Evaluated, WakeAt>;

// Why a task is dropped that comes too late, or would: as many have come as were wanted. Not that anything is wrong.
std::string EnoughWithout(TaskKind kind);

// Names what may share a partial: the tasks of one attempt, which are of one kind and start from one version. A site
// that still holds a partial of an attempt that was given up must not fold the next attempt's tasks into it. `round` is
// as Offer's, below 2^32, and `attempt` below 2^31. Where tasks outlive attempts, it is what starts from one version:
// the round after that, attempt 1.
uint64_t GatherOf(int64_t round, int64_t attempt, TaskKind kind = TaskKind::kTrain);

// What stands before the number in a task's name and in lines about it: r (round) or e (evaluated version).
char Letter(TaskKind kind);

// One line without the run's id, the same simulated and deployed: "offer r1 a1 client-00003#0", "fold r1 a1
// client-00003#0", "commit r1 a1 client-00001#0 client-00003#0"; of an evaluation "offer e1 a1 client-00003#0".
// `run_id` is what the tasks' names start with.
std::string Describe(const Action& action, std::string_view run_id);

}  // namespace rivulet
