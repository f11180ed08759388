// The rule "external": a function outside of this program, such as one in Python, makes the mean of a version's
// updates. The function reads every update whole, where it is stored. Its result is checked here.
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
    double weight = 1;  // as people count it: examples
    std::string file;   // float32 in wire order, `offset` bytes from its beginning; read only
    int64_t offset = 0;
  };
  int64_t version = 0;  // that is made
  std::string_view part;
  int64_t elements = 0;
  std::vector<Update> updates;  // in byte order of their tasks
};

// Calls come one after the other, from any thread.
class ExternalAggregation {
 public:
  virtual ~ExternalAggregation() = default;
  // Fills `out`, of request.elements values. Errors are sentences about the function: it raised, it returned another
  // shape, its process ended or did not answer in time.
  virtual Status Aggregate(const ExternalRequest& request, std::span<float> out) = 0;
};

// The function of this process; null: none. Set before a run begins.
void UseExternalAggregation(std::shared_ptr<ExternalAggregation> aggregation);

}  // namespace rivulet
