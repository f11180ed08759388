// The input pipeline of a pass: a graph of dataset ops that shuffles, maps and batches the client's data set, decoded
// as the plan's features describe. It never names a file.
//
//   BoundDataset(name = the pass's data set): one element for each example; one component for each feature, in the
//     order of the plan's features: float32 for bytes and floats, int64 for integers, of the feature's shape
//   … any dataset ops (engine/ops/dataset.cc) and functions …
//   the node "batches": elements of the same components, each with the examples of one step along a first dimension
//
// An epoch is one iteration over it. A shuffle without seeds draws from the client's stream: over a whole buffer it
// gives the order of the built-in epochs.
#pragma once

#include <memory>

#include "engine/base/philox.h"
#include "engine/input/pipeline.h"
#include "federated/plan/plan.h"

namespace rivulet {

inline constexpr std::string_view kInputNode = "batches";

// The pipeline of pass.input, which is not null. `size` examples are read from `source`, which gives the
// components of one example. INVALID_ARGUMENT, NOT_FOUND: no such node, an op that is no dataset op, another name than
// the pass's data set, batches that the model cannot be fed with.
StatusOr<std::shared_ptr<const Pipeline>> BuildInput(const Plan& plan, const LocalPass& pass,
                                                     std::shared_ptr<const ElementSource> source, int64_t size,
                                                     const StreamKey& stream);

// What the input of a pass may cost a client in one task: a fixed number of elements for each example of each epoch, of
// bytes in its buffers, of threads, of iterations of a function's loops, and an hour.
std::shared_ptr<InputBudget> InputBudgetFor(const LocalPass& pass, int64_t size);

// What can be said of the input before there is data: the errors of BuildInput.
Status CheckInput(const Plan& plan, const LocalPass& pass);

}  // namespace rivulet
