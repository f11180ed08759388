// Training of a new version on the server's data before it is published: fine-tuning of the aggregated model.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

class ServerTraining {
 public:
  virtual ~ServerTraining() = default;
  // Returns the model after training, a pure function of `model` and of the version that is being made. Calls are
  // sequential, in order of versions. Errors are those of training.
  virtual StatusOr<std::shared_ptr<const Model>> Train(const std::shared_ptr<const Model>& model, int64_t version) = 0;
};

}  // namespace rivulet
