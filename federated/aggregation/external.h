// The rule "external": a function outside this program, such as one in Python, computes the mean of a version's
// updates. The function reads each whole update from its file. Its result is checked here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

inline constexpr char kExternalRule[] = "external";

struct ExternalRequest {
  struct Update {
    TaskId task;
    double weight = 1;  // in users' units: examples
    std::string file;   // float32 in wire order, starting at byte `offset`; read only
    int64_t offset = 0;
  };
  int64_t version = 0;  // the version that is being made
  std::string_view part;
  int64_t elements = 0;
  std::vector<Update> updates;  // in byte order of their tasks
};

// Calls are sequential, from any thread.
class ExternalAggregation {
 public:
  virtual ~ExternalAggregation() = default;
  // Fills `out`, of request.elements values. Errors are sentences about the function: it raised an exception, it
  // returned another shape, its process ended or missed its time limit.
  virtual Status Aggregate(const ExternalRequest& request, std::span<float> out) = 0;
};

// Sets the function of this process; null: none. Call before a run begins.
void UseExternalAggregation(std::shared_ptr<ExternalAggregation> aggregation);

}  // namespace rivulet
