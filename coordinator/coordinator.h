// The coordinator of one run: the round machine, staging, folding, model store and history behind CoordinatorApi.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/rows.h"
#include "engine/base/file_system.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/plan.h"
#include "federated/population/population.h"
#include "federated/scenario/scenario.h"
#include "federated/server_state/server_training.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"
#include "federated/weights/model.h"

namespace rivulet {

class Base;  // federated/weights/base.h

class Fleet;          // coordinator/rounds/fleet.h
struct NodeIdentity;  // certificates/identity.h
class Tracer;         // engine/profile/tracer.h

// What a finished attempt at a round tells whoever watches (progress lines, `up`, tests).
struct RoundReport : RoundResult {
  std::string run_id;
  int64_t round = 0;
  int64_t attempt = 1;
  std::string status;  // committed, abandoned, failed
  std::string reason;
  int64_t selected = 0;
  struct Lost {
    std::string client_id;
    std::string sentence;  // "failed: label 12 at record 3", "refused: …"
    TaskId task;
  };
  std::vector<Lost> lost;  // clients that failed or whose update was refused, in the order drawn
  Digest model_digest;
  std::map<std::string, double> central;  // "test/accuracy", "test/loss"; empty when not evaluated
  std::optional<double> virtual_seconds;  // since the run began, of a fleet's clock
  std::string ends_early;                 // why no round follows, though more were planned (run.stop); "": one does
};

// What clients have measured of a version.
struct EvaluationReport {
  std::string run_id;
  int64_t round = 0;   // whose version it is
  std::string reason;  // why it was not measured; "" where it was
  int64_t selected = 0, folded = 0;
  std::map<std::string, double> federated;  // "evaluate/accuracy", over all examples; "evaluate/accuracy/p10", …
};

// Called from the coordinator's threads, without its lock; must not block long.
struct CoordinatorObserver {
  std::function<void(const std::string& client_id)> on_offer;  // a task waits for this client's poll
  std::function<void(int64_t round, int64_t folded, int64_t selected)> on_progress;
  std::function<void(const RoundReport&)> on_round;
  std::function<void(const EvaluationReport&)> on_evaluation;
  std::function<void(const Status&)> on_finished;  // OK: finished
  // What whoever runs it may want to know at once: who joins, who is turned away, whose updates are missing, and once a
  // minute what is awaited while nothing else happens. Not all of it is a row.
  std::function<void(const EventRow&)> on_event;
  std::function<void(const std::string&)> on_action;  // every action of the round machine, as text (tests)
};

struct CoordinatorOptions {
  Scenario scenario;
  std::shared_ptr<const Plan> plan;  // resume: that which the run keeps, where it keeps one (coordinator/stored_run.h)
  std::shared_ptr<const Model>
      initial_model;                 // of a new run with an external plan; else null: the plan's graph makes it
  std::shared_ptr<const Base> base;  // of a plan that names one; else null
  std::string db_path;
  std::string resume;              // run id, name or "latest"; "" for a new run
  Evaluator* evaluator = nullptr;  // may be null: no central evaluation; must outlive the coordinator
  // Of each version, before anybody sees it; null: none. Must outlive the coordinator.
  ServerTraining* training = nullptr;
  // All of it are members from the start, without a poll and without a row before their first task. Null: whoever polls
  // with the plan's data set is a member from then on, as long as data.partition.clients has room, or 2^20 where it is
  // 0.
  std::shared_ptr<Population> population;
  FileSystem* file_system = nullptr;  // null: FileSystem::Default()
  CoordinatorObserver observer;
  Tracer* tracer = nullptr;         // of rounds, folds, commits and evaluations; must outlive the coordinator
  std::function<int64_t()> now_ms;  // null: the system clock, milliseconds since 1970 UTC
  // Of a simulation: how long a client's task takes on a virtual clock, by which arrivals are ordered where tasks start
  // from the latest version or more are asked than are waited for, and slow clients are told from fast ones
  // (Participation::duration); null: in the order in which they come, and by measured time. A pure function, at least
  // 1.
  std::function<int64_t(const std::string& client_id)> task_time;
  // Of a simulation with [devices]: they order all arrivals, server.deadline and server.lease are of their clock, and
  // each version's row says when it was made. Null: none; a scenario with devices is refused then.
  std::shared_ptr<const Fleet> fleet;
  // False in simulations: a virtual client is slow with the machine it runs on and is never late or away, so
  // server.deadline, server.lease and server.presence, which are wall-clock time, do not hold for it.
  bool enforce_deadline = true;
  // Clients may keep something that the plan knows nothing of, as those written in Python do: of any plan tasks say
  // which earlier one their client's state is the proposal of.
  bool names_states = false;
  // Of a simulation that trains on GPUs: their model. Recorded, and a run is not resumed with another; "": the host.
  std::string trained_on;
  // Of runs with secure aggregation: this node's identity, whose authority and revocation list tell clients' keys; may
  // change from call to call, as WatchedIdentity does. Null: none, and plans that need one are refused.
  std::function<std::shared_ptr<const NodeIdentity>()> identity;
  // Whoever trains plays scenario.attack too, as a simulation does; otherwise a scenario with one is refused.
  bool plays_attack = false;
};

// What a run is at, and who works on what for it.
struct RunStatus {
  RunState state;
  struct Work {
    std::string client_id, via;
    TaskId task;
    int64_t round = 0;  // that it trains for, or whose model it measures
    std::string state;  // of its lease: offered, taken, staging, held, …
    int64_t since_unix_ms = 0;
  };
  std::vector<Work> work;  // what is not over yet
  // Of attempts that this process has closed and written, and of their tasks, those that trained.
  struct Totals {
    int64_t committed = 0, abandoned = 0;
    int64_t folded = 0, refused = 0, dropped = 0, failed = 0;
    int64_t bytes_up = 0, bytes_down = 0;
  } totals;
};

enum class Steering : uint8_t {
  kPause,  // nothing is drawn any more; an open round is made
  kResume,
  kFinish,  // ends as after Stop, once the open round is made
  kStop,    // as Stop
};

// The run starts when min_clients are members, and not before the first call of Poll or Wait. Over when every round is
// committed, when a round was given up after server.max_attempts attempts, when a model or row cannot be written, or
// after Stop. Poll then says so, except after Stop, when clients are asked to wait for the run to be resumed. Readers
// and writers that it gave out must be gone before it is destroyed.
class Coordinator : public CoordinatorApi {
 public:
  // Takes the run's lock, writes or reads its rows. FAILED_PRECONDITION also: the base is not the plan's. UNAVAILABLE:
  // another process owns the run. FAILED_PRECONDITION: a model that a row names is missing or differs, a key of class
  // "plan" has another value, the plan is another than the run keeps, or the database is newer than this program.
  // DATA_LOSS: the plan it keeps is damaged.
  static StatusOr<std::unique_ptr<Coordinator>> Create(CoordinatorOptions options);

  virtual const std::string& run_id() const = 0;
  // Where what belongs to this run lies, beside its history: models, plan, and what simulated clients keep.
  virtual const std::string& folder() const = 0;
  virtual bool already_finished() const = 0;  // --resume of a finished run
  // Blocks until the run ends: OK when finished, the reason otherwise. CANCELLED after Stop.
  virtual Status Wait() = 0;
  // Ends after what is being committed; the run is "interrupted" and can be resumed.
  virtual void Stop() = 0;
  // What an operator wants of it; nothing, once it is over. A pause is of this process: a run that is resumed goes on.
  virtual void Steer(Steering steering) = 0;
  // Sends a member away: its lease ends for `reason`, and it is drawn no more until it joins again. False: no member.
  // What an aggregator has folded of it stays in that aggregator's partial.
  virtual bool Remove(const std::string& client_id, const std::string& reason) = 0;
  // A site of many names is gone, as whoever watches it has seen (leases do not lapse where enforce_deadline is off):
  // what it has is offered to the others. Should it live, it is told which of it is not its own any more.
  virtual void LoseSite(const std::string& site) = 0;
  virtual RunStatus Standing() = 0;
  virtual bool over() const = 0;
  virtual bool stopped() const = 0;  // over, by Stop or an operator: the next process may go on with it
  virtual std::shared_ptr<const Model> model() const = 0;  // as last committed
};

}  // namespace rivulet
