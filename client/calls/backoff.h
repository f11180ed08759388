// Waiting times between tries: exponential, capped, with jitter. Jitter keeps a thousand clients that lost one
// coordinator from coming back in the same millisecond. It is a pure function of (client_id, try), so that tests can
// state it.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/philox.h"

namespace rivulet {

struct BackoffOptions {
  int64_t initial_ms = 200;  // of the first wait, before jitter
  int64_t max_ms = 15'000;
  double factor = 2;
};

// Sequence of waiting times. Not thread-safe.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, std::string_view client_id);
  // Milliseconds until the next try: min(max, initial × factor^tries) × [0.5, 1); at least 1.
  int64_t NextMs();
  void Reset() { tries_ = 0; }
  int tries() const { return tries_; }

 private:
  BackoffOptions options_;
  PhiloxKey key_;
  int tries_ = 0;
};

}  // namespace rivulet
