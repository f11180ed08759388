// A federated run in one process: a coordinator, and sites in threads (client/site/site.h) for its virtual clients.
// They use the same CoordinatorApi and trainer as deployed clients. A simulation has no separate training loop,
// aggregation or selection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/training/artifact_cache.h"
#include "client/training/device/training_device.h"
#include "coordinator/coordinator.h"
#include "engine/profile/step_monitor.h"
#include "setup/shared_parts.h"
#include "simulations/launchers/invitation.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

// State shared by successive simulations of one process with the same device and workers: data, shares, decoded
// examples, and artifacts compiled from equal plans.
struct SharedRuns {
  explicit SharedRuns(int64_t row_bytes)
      : parts(std::make_shared<SharedParts>(row_bytes)),
        artifacts(std::make_shared<ArtifactCache>("", parts->row_budget())) {}
  const std::shared_ptr<SharedParts> parts;
  const std::shared_ptr<ArtifactCache> artifacts;
};

struct SimulationOptions {
  Scenario scenario;
  std::string db_path;
  std::string resume;
  // 0: one per core; on devices one each; none if others train too. On the host there are fewer, reported to `note`, if
  // the planned memory of so many simultaneous tasks exceeds the available one.
  int workers = 0;
  int64_t memory = 0;  // limit for that; 0: the process's limit
  // The device on which this process trains clients. Workers share it, or use several devices in turn, each with its
  // own lanes.
  TrainingDevice device;
  // A plan that the device cannot train is trained on the host, with one call of `note`; else it is refused.
  bool soft_placement = false;
  std::function<void(const std::string& sentence)> note;  // null: no listener
  // Sites of other processes train too, admitted by the server of coordinator(). Clients' states are then stored at the
  // coordinator, and clients may be unknown to this program: without training data they are numbers.
  bool others_train = false;
  Ranks* ranks = nullptr;              // led by this process, and all train; null: there are none. Outlives it
  const SharedRuns* shared = nullptr;  // null: shares nothing. Outlives it
  CoordinatorObserver observer;
  Instruments instruments;  // observe the run and its steps; they change none of its bits, and must outlive it
};

struct SimulationResult {
  std::string run_id;
  bool already_finished = false;
  std::map<std::string, double> central;  // of the last evaluated round
  std::shared_ptr<const Model> model;
};

class Simulation {
 public:
  static StatusOr<std::unique_ptr<Simulation>> Create(SimulationOptions options);
  virtual ~Simulation() = default;
  virtual const std::string& run_id() const = 0;
  virtual StatusOr<SimulationResult> Run() = 0;  // CANCELLED after Stop
  virtual void Stop() = 0;                       // from another thread
  virtual Coordinator& coordinator() = 0;
  // The invitation for processes that train for it.
  virtual StatusOr<Invitation> invitation() const = 0;
};

}  // namespace rivulet
