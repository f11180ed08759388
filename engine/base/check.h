// RIVULET_CHECK(condition, "format", …): an assertion of an invariant that no input can break, only a bug in this
// program. A failed check prints its place and reason and a stack trace (engine/base/stack_trace.h), and aborts.
#pragma once

#include <fmt/format.h>

#include <string>

namespace rivulet::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& message);
}  // namespace rivulet::internal

#define RIVULET_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::rivulet::internal::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
