// What measures a committed model: a coordinator asks for it, whatever makes a run's parts gives it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// A number, and of a rate what it is made of: value = right / total, so that 0.228 is 0.228.
struct Measure {
  double value = 0;
  std::optional<int64_t> right, total;
  static Measure Rate(int64_t right, int64_t total) {
    return {static_cast<double>(right) / static_cast<double>(total), right, total};
  }
  bool operator==(const Measure&) const = default;
};

// Central evaluation of a committed model: measures by name, such as "test/accuracy". Deterministic for any number of
// threads.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) = 0;
};

}  // namespace rivulet
