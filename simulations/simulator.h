// A federated run in one process: a coordinator, and sites in threads (client/site.h) that speak for its virtual
// clients through the same CoordinatorApi and the same trainer as deployed clients, and fold where they train. No
// training loop, fold or selection of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/training_device.h"
#include "coordinator/coordinator.h"
#include "engine/profile/step_monitor.h"
#include "simulations/launchers/invitation.h"
#include "simulations/launchers/ranks.h"

namespace rivulet {

struct SimulationOptions {
  Scenario scenario;
  std::string db_path;
  std::string resume;
  int workers = 0;  // 0: one per core; on a device one; where others train too, none
  // Where clients are trained by this process. Workers share it, each with lanes of its own.
  TrainingDevice device;
  // A plan that the device cannot train is trained on the host, which `note` is told of once; else it is refused.
  bool soft_placement = false;
  std::function<void(const std::string& sentence)> note;
  // Sites of other processes train too: who serves coordinator() lets them in. What clients keep then goes by way of
  // the coordinator, and clients may be such as this program knows nothing of: without training data they are numbers.
  bool others_train = false;
  Ranks* ranks = nullptr;  // of which this process leads: all of them train; null: there are none. Outlives it
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
