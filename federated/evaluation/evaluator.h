// What measures a committed model: a coordinator asks for it, whatever makes a run's parts gives it.
#pragma once

#include <map>
#include <string>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// Central evaluation of a committed model: values by name, such as "test/accuracy". Deterministic for any number of
// threads.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual StatusOr<std::map<std::string, double>> Evaluate(const Model& model) = 0;
};

}  // namespace rivulet
