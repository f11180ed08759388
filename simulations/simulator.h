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

// What simulations of one process have in common, one after the other, with the same device and workers: data, shares,
// decoded examples, and what is compiled from plans that are equal.
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
  // 0: one per core; on devices one each; where others train too, none. On the host fewer, which `note` is told of,
  // where as many tasks as are planned to be in memory at once have no room there.
  int workers = 0;
  int64_t memory = 0;  // bytes for that; 0: the process's limit
  // Where clients are trained by this process. Workers share it, or take several devices in turn, each with lanes of
  // its own.
  TrainingDevice device;
  // A plan that the device cannot train is trained on the host, with one call of `note`; else it is refused.
  bool soft_placement = false;
  std::function<void(const std::string& sentence)> note;  // null: no listener
  // Sites of other processes train too: who serves coordinator() lets them in. What clients keep then goes by way of
  // the coordinator, and clients may be such as this program knows nothing of: without training data they are numbers.
  bool others_train = false;
  Ranks* ranks = nullptr;  // of which this process leads: all of them train; null: there are none. Outlives it
  const SharedRuns* shared = nullptr;  // null: with nobody. Outlives it
  CoordinatorObserver observer;
  Instruments instruments;  // watch the run and its steps; they change no bit of it, and must outlive it
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
  // For processes that are to train for it.
  virtual StatusOr<Invitation> invitation() const = 0;
};

}  // namespace rivulet
