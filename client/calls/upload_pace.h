// Rate limit over all uploads of a client: the site's line has other users.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/clock.h"

namespace rivulet {

// Rate limiter. Not thread-safe: one per thread that uploads.
class UploadPace {
 public:
  // `bytes_per_second` 0: no limit. `clock` must outlive this.
  explicit UploadPace(int64_t bytes_per_second, const Clock& clock = Clock::System())
      : bytes_per_second_(bytes_per_second), clock_(clock) {}

  // Bytes per write: at most a second's worth, so that no pause is long.
  int64_t ChunkBytes(int64_t wanted) const {
    return bytes_per_second_ == 0 ? wanted : std::clamp<int64_t>(bytes_per_second_, 1, wanted);
  }
  // Milliseconds until the next `bytes` may be sent; counts them as sent then. Idle time earns no credit.
  int64_t WaitMs(int64_t bytes) {
    if (bytes_per_second_ == 0) return 0;
    const TimeMs now = clock_.Now();
    const TimeMs begin = std::max(free_, now);
    free_ = begin + (bytes * 1000 + bytes_per_second_ - 1) / bytes_per_second_;
    return begin - now;
  }

 private:
  const int64_t bytes_per_second_;
  const Clock& clock_;
  TimeMs free_ = 0;  // when the next bytes may be sent
};

}  // namespace rivulet
