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

namespace rivulet {

struct SimulationOptions {
  Scenario scenario;
  std::string db_path;
  std::string resume;
  int workers = 0;  // 0: one per core; on a device one
  // Where clients are trained. Workers share it, each with lanes of its own.
  TrainingDevice device;
  // A plan that the device cannot train is trained on the host, which `note` is told of once; else it is refused.
  bool soft_placement = false;
  std::function<void(const std::string& sentence)> note;
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
};

}  // namespace rivulet
