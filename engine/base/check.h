// RIVULET_CHECK(condition, "format", …): for what only a bug in this house can cause; no input reaches one.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace rivulet::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "fatal: %s:%d: check `%s` failed. %s\n", file, line, condition, message.c_str());
  std::abort();
}
}  // namespace rivulet::internal

#define RIVULET_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                     \
      ::rivulet::internal::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
