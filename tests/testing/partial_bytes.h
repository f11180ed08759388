// A partial as it is saved, in one piece: equal partials are equal bytes.
#pragma once

#include <string>

#include "federated/aggregation/partial.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline std::string BytesOf(const AggregationSpec& spec, const Partial& partial) {
  std::string bytes;
  EXPECT_OK(WritePartial(spec, partial, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  }));
  return bytes;
}

}  // namespace rivulet::testing
