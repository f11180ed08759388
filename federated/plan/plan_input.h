// The input pipeline of a pass: a graph of dataset ops that shuffles, maps and batches the client's data set, decoded
// as the plan's features describe. It never names a file.
//
//   BoundDataset(name = the pass's data set): one element per example; one component per feature, in the
//     order of the plan's features: float32 for bytes and floats, int64 for integers, of the feature's shape
//   … any dataset ops (engine/ops/dataset.cc) and functions …
//   the node "batches": elements of the same components, each with one step's examples along a first dimension
//
// An epoch is one iteration over it. A shuffle without seeds draws from the client's stream: if its buffer holds the
// whole data set, the order is that of the built-in epochs.
#pragma once

#include <memory>

#include "engine/base/philox.h"
#include "engine/input/pipeline.h"
#include "federated/plan/plan.h"

namespace rivulet {

inline constexpr std::string_view kInputNode = "batches";

// Builds the pipeline of pass.input, which is not null. It reads `size` examples from `source`, which gives the
// components of one example. INVALID_ARGUMENT, NOT_FOUND: no node "batches", an op that is not a dataset op, another
// name than the pass's data set, batches that do not fit the model.
StatusOr<std::shared_ptr<const Pipeline>> BuildInput(const Plan& plan, const LocalPass& pass,
                                                     std::shared_ptr<const ElementSource> source, int64_t size,
                                                     const StreamKey& stream);

// Limits of a pass's input in one task: elements per example of each epoch, bytes in buffers, threads, iterations of a
// function's loops, and one hour.
std::shared_ptr<InputBudget> InputBudgetFor(const LocalPass& pass, int64_t size);

// Checks the input without data. Errors as in BuildInput.
Status CheckInput(const Plan& plan, const LocalPass& pass);

}  // namespace rivulet
