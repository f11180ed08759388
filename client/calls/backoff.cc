#include "client/calls/backoff.h"

#include <algorithm>
#include <cmath>

#include "federated/random/streams.h"

namespace rivulet {

Backoff::Backoff(const BackoffOptions& options, std::string_view client_id)
    : options_(options), key_(KeyFor(0, client_id)) {}

int64_t Backoff::NextMs() {
  const double full = std::min(static_cast<double>(options_.max_ms),
                               static_cast<double>(options_.initial_ms) * std::pow(options_.factor, tries_));
  const PhiloxBlock block = Philox4x32(key_, {static_cast<uint32_t>(tries_), 0, 0, 0});
  if (tries_ < 1'000'000) ++tries_;
  return std::max<int64_t>(1, static_cast<int64_t>(full * (0.5 + 0.5 * UniformFloat(block[0]))));
}

}  // namespace rivulet
