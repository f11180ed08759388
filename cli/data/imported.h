// Output and options shared by all imports.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"

namespace rivulet {

// Prints the file that an import wrote for a set.
inline void TellImported(const std::string& out, std::string_view set, int64_t examples, std::string_view more = "") {
  fmt::print("{}: {} examples{}\n", JoinPath(out, fmt::format("{}.tfrecord", set)), examples, more);
}

// The options of an import, and --test-every, which is optional.
template <typename Options>
struct Divided {
  Options options;
  std::optional<int64_t> test_every;

  Options Complete() const {
    Options complete = options;
    complete.test_every = test_every.value_or(0);
    return complete;
  }
};

}  // namespace rivulet
