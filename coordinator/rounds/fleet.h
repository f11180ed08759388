// Interface to a simulation's devices: their availability, the duration of each task, and their absence before its end.
// The run machine uses it for virtual time; simulations/fleet defines the devices and their distributions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/rounds/lease_book.h"

namespace rivulet {

// Times are microseconds since the run began. Pure functions: the same answers in any order, on any machine. Immutable,
// thread-safe.
class Fleet {
 public:
  virtual ~Fleet() = default;
  // Whether the client's device would take a task at this time.
  virtual bool IsThere(const std::string& client_id, VirtualTime at) const = 0;
  struct Course {
    VirtualTime ends = 0;  // when its update has arrived, or its device is gone
    bool lost = false;     // true: the device is gone
  };
  // The course of a training task that the device takes at `at`. `base_round` and `ordinal` identify the client's task.
  virtual Course CourseOf(const std::string& client_id, int64_t base_round, uint16_t ordinal, VirtualTime at) const = 0;
  // How long it takes to make version `round` of the received updates, and to measure it.
  virtual VirtualTime VersionTime(int64_t /*round*/) const { return 0; }
  // When the first of the devices that are away at `at` is back; nullopt: none ever is.
  virtual std::optional<VirtualTime> NextBack(VirtualTime at) const = 0;
};

}  // namespace rivulet
