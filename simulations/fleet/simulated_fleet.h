// Simulated devices of a scenario's [devices]: each client's speeds, drawn once by the run's seed, and the duration of
// each of its tasks, from the planned computation and transfers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/rounds/fleet.h"
#include "federated/population/population.h"
#include "federated/scenario/scenario.h"
#include "simulations/fleet/device_trace.h"
#include "simulations/fleet/law.h"

namespace rivulet {

class FileSystem;  // engine/base/file_system.h

// Identifies one of a client's tasks.
struct TaskOfClient {
  int64_t base_round = 0;
  uint16_t ordinal = 0;
};
// Planned work of a client's task.
struct TaskWork {
  double operations = 0;
  int64_t bytes_down = 0, bytes_up = 0;
};

// A device is available always, in one part of each period, or by its lines of the trace. While available,
// it works on a task: download, compute, upload, and a delay, unless its life ends first. Its speed is that
// at the beginning. Its draws are its own, so nothing depends on which devices are queried, or in which
// order.
class SimulatedFleet final : public Fleet {
 public:
  // A pure function. Without a task it gives the mean of the client's tasks.
  using WorkOf = std::function<TaskWork(const std::string& client_id, std::optional<TaskOfClient> task)>;
  // `names`: all clients; must not change. Errors as Law::Parse and DeviceTrace::Parse.
  static StatusOr<std::shared_ptr<const SimulatedFleet>> Create(const DevicesConfig& config, uint64_t seed,
                                                                std::shared_ptr<const Population> names, WorkOf work,
                                                                FileSystem& fs);

  bool IsThere(const std::string& client_id, VirtualTime at) const override;
  Course CourseOf(const std::string& client_id, int64_t base_round, uint16_t ordinal, VirtualTime at) const override;
  VirtualTime VersionTime(int64_t round) const override;
  std::optional<VirtualTime> NextBack(VirtualTime at) const override;

  // The duration of a client's tasks with the mean of all varying parts; at least 1.
  VirtualTime TypicalTask(const std::string& client_id) const;

 private:
  // A time in each period at which a device becomes available.
  struct Beginning {
    VirtualTime at = 0;
    int64_t rank = 0;  // in names_
  };
  SimulatedFleet() = default;
  double OfClient(const std::optional<Law>& law, uint32_t op, const std::string& client_id, double none) const;
  VirtualTime FirstOf(const std::string& client_id) const;
  // The begin and end of its present availability; nullopt: it is away.
  std::optional<DeviceSpan> SpanAt(const std::string& client_id, VirtualTime at) const;
  double SecondsOf(const std::string& client_id, const TaskWork& work, const DeviceSpan& span) const;
  const std::vector<Beginning>& beginnings() const;

  std::optional<Law> compute_, download_, upload_, delay_, failure_, availability_, server_;
  std::optional<DeviceTrace> trace_;
  VirtualTime period_ = 0;
  uint64_t seed_ = 1;
  std::shared_ptr<const Population> names_;
  WorkOf work_;
  // Ascending; made at the first wait, if any.
  mutable std::once_flag beginnings_made_;
  mutable std::vector<Beginning> beginnings_;
};

}  // namespace rivulet
