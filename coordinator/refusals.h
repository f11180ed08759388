// Rate-limited log of refused callers: at most one line a minute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rivulet {

// Not thread-safe.
class Refusals {
 public:
  // Counts one. What is to be told now; "" where a line was told less than a minute ago.
  std::string Count(std::string_view why, int64_t now_unix_ms);
  // What has been counted and not told; "" for nothing.
  std::string Rest();

 private:
  std::optional<int64_t> told_unix_ms_;
  int64_t untold_ = 0;
  std::string last_;
};

}  // namespace rivulet
