#include "engine/base/usage_error.h"

#include "absl/strings/cord.h"

namespace rivulet {
namespace {

constexpr char kUsagePayload[] = "rivulet/usage";
constexpr char kStoppedPayload[] = "rivulet/stopped";

}  // namespace

Status AsUsageError(Status status) {
  if (!status.ok()) status.SetPayload(kUsagePayload, absl::Cord("1"));
  return status;
}

Status StoppedAsAsked(Status status) {
  status.SetPayload(kStoppedPayload, absl::Cord("1"));
  return status;
}

bool IsStoppedAsAsked(const Status& status) { return status.GetPayload(kStoppedPayload).has_value(); }

bool IsUsageError(const Status& status) { return status.GetPayload(kUsagePayload).has_value(); }

}  // namespace rivulet
