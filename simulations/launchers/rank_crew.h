// A simulation on several ranks (ranks.h). Rank 0 has the coordinator, and is its only site; all of them train. One
// step after another, all ranks together:
//
//   rank 0: Poll … until the coordinator has no more tasks (the cohort, or the rest of it)
//           Broadcast   the gatherings, and new models and other inputs
//           Scatter     to each rank its tasks, dealt by their planned cost, with their clients' state
//   all:    train and aggregate, each with its own threads (local_task_server.h, client/site/site.h)
//           Gather      failures, and new client states
//           merge the partial sums of each gathering to one at rank 0 (joined_partials.h)
//   rank 0: keeps it open, as every site does, and submits it on request
//
// The bits are those of one process, because sums are integers.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/calls/stop_signal.h"
#include "client/training/device/training_device.h"
#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "federated/states/state_store.h"
#include "simulations/clients/site_threads.h"
#include "simulations/clients/virtual_clients.h"
#include "simulations/launchers/invitation.h"
#include "simulations/launchers/local_task_server.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// The default number of training threads of a rank: its processors, or an even share of those that it shares with other
// ranks of its machine.
int WorkersOfRank(const Ranks& ranks);
// The memory limit of a rank in bytes: `memory` or, if 0, an even share of the memory that its machine and control
// groups have left among the ranks that share it. Without ranks, all of it.
int64_t MemoryOfRank(int64_t memory, const Ranks* ranks);

// The index of a rank's device on its machine: the ranks of a machine use them in turn.
size_t DeviceOfRank(const Ranks& ranks, size_t devices);

// The training device of a rank, in words: equal for ranks with equal bits.
std::string NameOf(const TrainingDevice& device);

// Common options of a rank's sites: on a device they request as many tasks as it trains at once.
SiteOptions SiteOfRank(SiteOptions site);

struct RankLeaderOptions {
  std::shared_ptr<const Plan> plan;
  std::string run_id;
  int workers = 1;
  // The relative work of a task; a pure function.
  std::function<int64_t(const Task& task)> cost;
  ClientStateStore* states = nullptr;  // if the plan's clients keep state
  TrainingDevice device = {};          // that trains on this rank
  Instruments instruments;
};

// Rank 0's part. Used by one thread, except for Stop.
class RankLeader {
 public:
  // All arguments must outlive it, and so must all objects that the options borrow.
  RankLeader(Ranks& ranks, Coordinator& coordinator, VirtualClients& clients, RankLeaderOptions options);
  ~RankLeader();

  // Makes the other ranks join. FAILED_PRECONDITION names the one that cannot, and why.
  Status Begin(const Invitation& invitation);
  // Runs until the run is over. CANCELLED after Stop, at the end of the step.
  Status Run();
  void Stop();

 private:
  struct Held {
    TaskGathering gathering;
    std::unique_ptr<Aggregation> aggregation;
    std::vector<TaskRecord> records;
    size_t told = 0;  // number of these that were reported to the coordinator
  };

  StatusOr<std::vector<Task>> AskForAll(PollReply* last);
  StatusOr<PollReply> Ask(const std::vector<Task>& tasks);
  Status Obey(const PollReply& reply);
  Status HandOver(uint64_t gather);
  Status Fail(const TaskFailure& failure);
  Status Forget(const TaskId& cancelled);

  Status Step(const std::vector<Task>& tasks);
  StatusOr<std::string> OrderOf(const std::vector<Task>& tasks, const std::vector<TaskGathering>& gatherings);
  // Sends each rank its tasks; rank 0's own go to `own`.
  std::vector<std::string> Deal(const std::vector<Task>& tasks, std::vector<Task>* own);
  Status TakeReport(const std::string& bytes, LocalTaskServer::Done& done);
  Status Keep(const TaskGathering& gathering, LocalTaskServer::Folded all);

  Ranks& ranks_;
  Coordinator& coordinator_;
  const RankLeaderOptions options_;
  const Caller caller_;
  StopSignal stop_;
  const std::unique_ptr<TaskInputs> inputs_;
  LocalTaskServer slice_;
  SiteThreads sites_;
  std::vector<int64_t> capacities_;                 // by rank
  std::set<std::pair<BlobId::Form, Digest>> sent_;  // in the last step
  std::map<uint64_t, Held> held_;                   // by gathering
};

struct RankFollowerOptions {
  // 0: one on a device; on the host as in WorkersOfRank, or fewer if their planned memory exceeds the available
  // one.
  int workers = 0;
  // The device of this rank; if it cannot train, rank 0 receives the reason when it makes the others join.
  StatusOr<TrainingDevice> device = TrainingDevice();
};

// The whole work of a rank other than 0: executes rank 0's orders until it dismisses the ranks. Errors of tasks go to
// rank 0, which ends the run and prints them. INTERNAL: rank 0 sent an unknown or unreadable order. Rank 0 then waits
// for an answer forever, so the process must end all ranks.
Status FollowRanks(Ranks& ranks, RankFollowerOptions options);
// Called by rank 0, once, after any end of the run: the others end.
void DismissRanks(Ranks& ranks);

}  // namespace rivulet
