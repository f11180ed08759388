// Errors of the caller: an invalid command line or request. A program exits with status 2 for them.
#pragma once

#include <utility>

#include "engine/base/status.h"

namespace rivulet {

// Marks an error as the caller's wrong usage: exit code 2 instead of 1. OK stays OK.
Status AsUsageError(Status status);
bool IsUsageError(const Status& status);
// The end of a service that was asked to end (SIGTERM) and did so cleanly: its sentence is printed, the exit code is 0.
Status StoppedAsAsked(Status status);
bool IsStoppedAsAsked(const Status& status);
template <typename... Args>
[[nodiscard]] Status UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return AsUsageError(InvalidArgument(format, std::forward<Args>(args)...));
}

}  // namespace rivulet
