// Device names, as TensorFlow's: "/job:worker/replica:0/task:3/device:GPU:0" and any part of it.
//
//   name   = "" | "/" | part { part }
//   part   = "/job:" (word | "*") | "/replica:" (number | "*") | "/task:" (number | "*")
//          | "/device:" (type | "*") [":" (number | "*")]
//          | ("/cpu" | "/gpu", in either case) [":" (number | "*")]                     the old way
//   word   = letter { letter | digit | "_" }, type likewise but may begin with "_"
//
// Parts come in any order, each at most once; the first "/" is optional ("cpu:0"). "*" leaves its part unspecified, as
// if it were absent. "cpu" and "gpu" are read as the types CPU and GPU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// A constraint: unset parts may have any value. With all parts set it is one device.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica, task;
  std::optional<std::string> type;  // "CPU"
  std::optional<int> id;

  bool operator==(const DeviceName&) const = default;
  bool empty() const { return *this == DeviceName{}; }
  // True when it names one device.
  bool complete() const { return job && replica && task && type && id; }
  // Canonical: parts in the order above, "/device:CPU:*" for a type without a number, "" for nothing at all.
  std::string ToString() const;
};

// INVALID_ARGUMENT: names the wrong part, and the allowed forms.
StatusOr<DeviceName> ParseDeviceName(std::string_view text);

// Whether every part of `pattern` is set to the same
// value in `name`: `name` is at least as specific.
bool IsSpecificationOf(const DeviceName& pattern, const DeviceName& name);

// Returns true if some device matches both: no part is set to different values.
bool AreCompatible(const DeviceName& a, const DeviceName& b);

// Combines both constraints. INVALID_ARGUMENT names the part in which they differ. With `soft`, a difference in type or
// number is not an error: the result leaves the device (or its number) open.
StatusOr<DeviceName> MergeDevices(const DeviceName& a, const DeviceName& b, bool soft = false);

// Nested device scopes: parts of `inner` override those of `outer`, as in nested tf.device blocks.
DeviceName OverrideDevice(const DeviceName& outer, const DeviceName& inner);

}  // namespace rivulet
