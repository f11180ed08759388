// Scalars of a lane's result, beside the parts of its update.
#pragma once

#include <cstdint>
#include <span>

#include "client/training/trainer.h"
#include "federated/plan/pass.h"

namespace rivulet {

// What a pass reports of its last epoch, of `seen` examples whose batches have given these sums: a loss is that of the
// model as it is sent, as nearly as training tells.
void DeclarePass(const LocalPass& pass, std::span<const double> sums, int64_t seen, Scalars& declared);

// After the last pass.
void CloseResult(int64_t examples, uint64_t steps, LocalResult& result);

}  // namespace rivulet
