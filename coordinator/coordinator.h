// The coordinator of one run: the round machine, staging, aggregation, model store and history behind CoordinatorApi.
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

// Report of a finished attempt at a round, for observers (progress lines, `up`, tests).
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
  std::optional<double> virtual_seconds;  // since the run began, on a fleet's clock
  std::string ends_early;                 // why no round follows, though more were planned (run.stop); "": one follows
};

// Clients' measures of a version.
struct EvaluationReport {
  std::string run_id;
  int64_t round = 0;   // the measured version
  std::string reason;  // why it was not measured; "" if it was
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
  // Events for an operator: clients that join or are refused, missing updates, and, after a minute without news, the
  // reason of the wait. Not each of them is a row.
  std::function<void(const EventRow&)> on_event;
  std::function<void(const std::string&)> on_action;  // every action of the round machine, as text (tests)
};

struct CoordinatorOptions {
  Scenario scenario;
  std::shared_ptr<const Plan> plan;  // resume: the stored plan, if the run has one (coordinator/stored_run.h)
  std::shared_ptr<const Model>
      initial_model;                 // of a new run with an external plan; else null: the plan's graph makes it
  std::shared_ptr<const Base> base;  // of a plan that names one; else null
  std::string db_path;
  std::string resume;              // run id, name or "latest"; "" for a new run
  Evaluator* evaluator = nullptr;  // may be null: no central evaluation; must outlive the coordinator
  // Trains each version further before it is served; null: none. Must outlive the coordinator.
  ServerTraining* training = nullptr;
  // All its clients are members from the start, without a poll and without a row before their first task. Null: a
  // client that polls with the plan's data set becomes a member, up to data.partition.clients members, or 2^20 if that
  // is 0.
  std::shared_ptr<Population> population;
  FileSystem* file_system = nullptr;  // null: FileSystem::Default()
  CoordinatorObserver observer;
  Tracer* tracer = nullptr;         // of rounds, folds, commits and evaluations; must outlive the coordinator
  std::function<int64_t()> now_ms;  // null: the system clock, milliseconds since 1970 UTC
  // Simulations only: the duration of a client's task on a virtual clock, at least 1; a pure function. It orders
  // arrivals if tasks start from the latest version, or if more clients are selected than are waited for. It is also
  // Participation::duration, which separates slow clients from fast ones. Null: arrivals count in their real order,
  // durations as measured.
  std::function<int64_t(const std::string& client_id)> task_time;
  // Simulations with [devices] only: they order all arrivals, server.deadline and server.lease use their clock, and
  // each version's row has its virtual time. Null: none; a scenario with devices is then refused.
  std::shared_ptr<const Fleet> fleet;
  // False in simulations: a virtual client is as slow as its machine and never late or away. So server.deadline,
  // server.lease and server.presence, which are wall-clock time, do not apply to it.
  bool enforce_deadline = true;
  // True if clients may keep state of which the plan has no record, such as those written in Python. Tasks of any plan
  // then name the earlier task that proposed their client's state.
  bool names_states = false;
  // Simulations that train on GPUs: their model. It is recorded, and a run resumes on no other; "": the host.
  std::string trained_on;
  // Runs with secure aggregation: this node's identity. Its authority and revocation list verify clients' keys. It may
  // change between calls, as WatchedIdentity does. Null: none, and plans that need one are refused.
  std::function<std::shared_ptr<const NodeIdentity>()> identity;
  // True if clients play scenario.attack, as a simulation's do; otherwise a scenario with an attack is refused.
  bool plays_attack = false;
};

// Status of a run, and its open tasks.
struct RunStatus {
  RunState state;
  struct Work {
    std::string client_id, via;
    TaskId task;
    int64_t round = 0;  // for which it trains, or the version that it measures
    std::string state;  // of its lease: offered, taken, staging, held, …
    int64_t since_unix_ms = 0;
  };
  std::vector<Work> work;  // unresolved tasks
  // Attempts that this process has closed and written, and the training tasks among theirs.
  struct Totals {
    int64_t committed = 0, abandoned = 0;
    int64_t folded = 0, refused = 0, dropped = 0, failed = 0;
    int64_t bytes_up = 0, bytes_down = 0;
  } totals;
};

enum class Steering : uint8_t {
  kPause,  // no cohort is drawn any more; an open round is finished
  kResume,
  kFinish,  // ends as after Stop, once the open round is finished
  kStop,    // as Stop
};

// The coordinator of one run. The run starts when min_clients are members, but not before the first call of Poll or
// Wait. It is over when every round is committed, a round is abandoned after server.max_attempts attempts, a model or
// row cannot be written, or after Stop. Poll then reports the end; after Stop it asks clients to wait for a resumed
// run. Readers and writers that it returned must be destroyed before it.
class Coordinator : public CoordinatorApi {
 public:
  // Takes the run's lock, writes or reads its rows. UNAVAILABLE: another process owns the run. FAILED_PRECONDITION: the
  // base is not the plan's, a model named by a row is missing or differs, a key of class "plan" has another value, the
  // plan differs from the run's stored one, or the database is newer than this program. DATA_LOSS: the stored plan is
  // damaged.
  static StatusOr<std::unique_ptr<Coordinator>> Create(CoordinatorOptions options);

  virtual const std::string& run_id() const = 0;
  // The folder of the run's files, beside its history: models, plan, and states of simulated clients.
  virtual const std::string& folder() const = 0;
  virtual bool already_finished() const = 0;  // --resume of a finished run
  // Blocks until the run ends: OK when finished, the reason otherwise. CANCELLED after Stop.
  virtual Status Wait() = 0;
  // Ends the run after the version that is being committed; it is "interrupted" and can be resumed.
  virtual void Stop() = 0;
  // Executes an operator's request, unless the run is over. A pause ends with this process: a resumed run continues.
  virtual void Steer(Steering steering) = 0;
  // Removes a member: its lease ends for `reason`, and it is not selected until it joins again. False: no member. Its
  // updates that are already in an aggregator's partial sum stay there.
  virtual bool Remove(const std::string& client_id, const std::string& reason) = 0;
  // Reports that a site of many clients is gone, as its caller observed (without enforce_deadline leases do not lapse):
  // its tasks are offered to others. If the site lives, its next poll lists the tasks that it has lost.
  virtual void LoseSite(const std::string& site) = 0;
  virtual RunStatus Standing() = 0;
  virtual bool over() const = 0;
  virtual bool stopped() const = 0;  // over, by Stop or an operator: another process may resume it
  virtual std::shared_ptr<const Model> model() const = 0;  // as last committed
};

}  // namespace rivulet
