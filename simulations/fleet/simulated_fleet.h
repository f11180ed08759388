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

// Which of a client's tasks.
struct TaskOfClient {
  int64_t base_round = 0;
  uint16_t ordinal = 0;
};
// Planned work of a client's task.
struct TaskWork {
  double operations = 0;
  int64_t bytes_down = 0, bytes_up = 0;
};

// A device is there all the time, or in one part of each period, or as its lines of the trace say. It works on a task
// while it is there: download, then compute, then upload, and what delays it; no longer than it lives. Its speed is
// that at the beginning. What it draws is its own, so nothing depends on which devices are asked for, or in which
// order.
class SimulatedFleet final : public Fleet {
 public:
  // A pure function. Without a task it is the mean of the client's tasks.
  using WorkOf = std::function<TaskWork(const std::string& client_id, std::optional<TaskOfClient> task)>;
  // `names`: all clients; must not change. Errors as Law::Parse and DeviceTrace::Parse.
  static StatusOr<std::shared_ptr<const SimulatedFleet>> Create(const DevicesConfig& config, uint64_t seed,
                                                                std::shared_ptr<const Population> names, WorkOf work,
                                                                FileSystem& fs);

  bool IsThere(const std::string& client_id, VirtualTime at) const override;
  Course CourseOf(const std::string& client_id, int64_t base_round, uint16_t ordinal, VirtualTime at) const override;
  VirtualTime VersionTime(int64_t round) const override;
  std::optional<VirtualTime> NextBack(VirtualTime at) const override;

  // How long a client's tasks take without what differs from task to task, and with the mean of that; at least 1.
  VirtualTime TypicalTask(const std::string& client_id) const;

 private:
  // A time in each period at which a device is there and was not before.
  struct Beginning {
    VirtualTime at = 0;
    int64_t rank = 0;  // in names_
  };
  SimulatedFleet() = default;
  double OfClient(const std::optional<Law>& law, uint32_t op, const std::string& client_id, double none) const;
  VirtualTime FirstOf(const std::string& client_id) const;
  // Since when it is there now, and for how long from then on; nullopt: it is not.
  std::optional<DeviceSpan> SpanAt(const std::string& client_id, VirtualTime at) const;
  double SecondsOf(const std::string& client_id, const TaskWork& work, const DeviceSpan& span) const;
  const std::vector<Beginning>& beginnings() const;

  std::optional<Law> compute_, download_, upload_, delay_, failure_, availability_, server_;
  std::optional<DeviceTrace> trace_;
  VirtualTime period_ = 0;
  uint64_t seed_ = 1;
  std::shared_ptr<const Population> names_;
  WorkOf work_;
  // Ascending; made at the first wait, which may never come.
  mutable std::once_flag beginnings_made_;
  mutable std::vector<Beginning> beginnings_;
};

}  // namespace rivulet
