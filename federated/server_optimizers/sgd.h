// SGD on the server, the base class of optimisers that only change the step's length.
#pragma once

#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {

// w ← w + server.learning_rate · Factor · mean delta. Statistics take the same step, without the factor.
class ServerSgd : public ServerOptimizer {
 public:
  bool Step(const ServerStep& step) const override;
};

}  // namespace rivulet
