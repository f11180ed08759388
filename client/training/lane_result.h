// Scalars of a lane's result, besides the parts of its update.
#pragma once

#include <cstdint>
#include <span>

#include "client/training/trainer.h"
#include "federated/plan/pass.h"

namespace rivulet {

// Declares a pass's scalars from the sums over its last epoch of `seen` examples. The loss is thus the closest one to
// that of the sent model that training measures.
void DeclarePass(const LocalPass& pass, std::span<const double> sums, int64_t seen, Scalars& declared);

// Completes a result after the last pass.
void CloseResult(int64_t examples, uint64_t steps, LocalResult& result);

}  // namespace rivulet
