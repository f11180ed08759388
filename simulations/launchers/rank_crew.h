// A simulation on several ranks (ranks.h). Rank 0 has the coordinator, and is its only site; all of them train. One
// step after the other, all ranks together:
//
//   rank 0: Poll … until the coordinator has no more tasks (the cohort, or the rest of it)
//           Broadcast   the gatherings, and new models and other inputs
//           Scatter     to each rank its tasks, dealt by their planned cost, with their clients' state
//   all:    train and aggregate, each with its own threads (local_task_server.h, client/site/site.h)
//           Gather      failures, and new client states
//           merge the partial sums of each gathering to one at rank 0 (joined_partials.h)
//   rank 0: keeps it open, as every site does, and submits it on request
//
// The bits are those of one process, as the sums are integers.
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

// Threads that train on a rank which was not told a number: as many as it has processors, of those that it shares with
// other ranks of its machine an even part.
int WorkersOfRank(const Ranks& ranks);
// Bytes that a rank may train in: `memory`, or where that is 0 of what the machine and its control groups have left an
// even part of those ranks that share it. Without ranks all of it.
int64_t MemoryOfRank(int64_t memory, const Ranks* ranks);

// Which of its machine's devices a rank trains on: those of one machine take them in turn.
size_t DeviceOfRank(const Ranks& ranks, size_t devices);

// The training device of a rank, in words: equal for ranks with equal bits.
std::string NameOf(const TrainingDevice& device);

// What the sites of a rank have in common: on a device they ask for as many tasks as it trains at once.
SiteOptions SiteOfRank(SiteOptions site);

struct RankLeaderOptions {
  std::shared_ptr<const Plan> plan;
  std::string run_id;
  int workers = 1;
  // How much work a task is, next to others; a pure function.
  std::function<int64_t(const Task& task)> cost;
  ClientStateStore* states = nullptr;  // where the plan has clients keep something
  TrainingDevice device = {};          // where this rank trains
  Instruments instruments;
};

// Rank 0's part. One thread's, but for Stop.
class RankLeader {
 public:
  // All must outlive it, and what the options borrow.
  RankLeader(Ranks& ranks, Coordinator& coordinator, VirtualClients& clients, RankLeaderOptions options);
  ~RankLeader();

  // Has the other ranks join. FAILED_PRECONDITION names the one that cannot, and why.
  Status Begin(const Invitation& invitation);
  // Until the run is over. CANCELLED after Stop, at the end of the step.
  Status Run();
  void Stop();

 private:
  struct Held {
    TaskGathering gathering;
    std::unique_ptr<Aggregation> aggregation;
    std::vector<TaskRecord> records;
    size_t told = 0;  // of them, that the coordinator knows are held
  };

  StatusOr<std::vector<Task>> AskForAll(PollReply* last);
  StatusOr<PollReply> Ask(const std::vector<Task>& tasks);
  Status Obey(const PollReply& reply);
  Status HandOver(uint64_t gather);
  Status Fail(const TaskFailure& failure);
  Status Forget(const TaskId& cancelled);

  Status Step(const std::vector<Task>& tasks);
  StatusOr<std::string> OrderOf(const std::vector<Task>& tasks, const std::vector<TaskGathering>& gatherings);
  // Sends each rank its part; rank 0's own goes to `own`.
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
  std::set<std::pair<BlobId::Form, Digest>> sent_;  // of the last step
  std::map<uint64_t, Held> held_;                   // by gathering
};

struct RankFollowerOptions {
  // 0: on a device one, on the host as WorkersOfRank says, or fewer where their tasks are planned to need more memory
  // than there is.
  int workers = 0;
  // Where this rank trains; why it cannot is told to rank 0 when that has the others join.
  StatusOr<TrainingDevice> device = TrainingDevice();
};

// All that a rank other than 0 does: the orders of rank 0, until it dismisses the ranks. Errors of tasks go to rank 0,
// which ends the run and prints them. INTERNAL: rank 0 sent an order that this program does not know or cannot read.
// Rank 0 then waits for an answer without end, so the process must end all ranks.
Status FollowRanks(Ranks& ranks, RankFollowerOptions options);
// Called by rank 0, once, after any end of the run: the others end.
void DismissRanks(Ranks& ranks);

}  // namespace rivulet
