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

// What is not set may be anything: a constraint. With everything set it is one device.
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

// INVALID_ARGUMENT: the part that is wrong, and what may stand there.
StatusOr<DeviceName> ParseDeviceName(std::string_view text);

// True when every part that `pattern` states is stated and the same in `name`: the pattern describes all that `name`
// does.
bool IsSpecificationOf(const DeviceName& pattern, const DeviceName& name);

// True when some device fits both: no part is stated by both and differs.
bool AreCompatible(const DeviceName& a, const DeviceName& b);

// Both constraints at once. INVALID_ARGUMENT names the part they differ in. With `soft` a difference in type or number
// is no error: the merged constraint leaves the device (or its number) open then.
StatusOr<DeviceName> MergeDevices(const DeviceName& a, const DeviceName& b, bool soft = false);

// Device scopes: what `inner` states wins over `outer`, part by part, as nested tf.device blocks.
DeviceName OverrideDevice(const DeviceName& outer, const DeviceName& inner);

}  // namespace rivulet
