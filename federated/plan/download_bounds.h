// Upper bounds of the bytes that a coordinator may send for a plan's tasks. They depend on the plan alone, so a client
// knows each before the download starts.
#pragma once

#include <cstdint>

#include "federated/plan/plan.h"

namespace rivulet {

// Bound for a model version: a safetensors file of this layout with a coordinator's additions, or the same values
// encoded (federated/download/download.h).
int64_t MaxModelBytes(const ModelLayout& layout);
// Bound for the file in which a base of this layout is sent (federated/weights/base.h). The file may also contain
// values for variables that the plan trains.
int64_t MaxBaseBytes(const ModelLayout& layout);
// Size of a vector that a task names besides its model: exactly the trainable elements.
int64_t MaxBroadcastBytes(const ModelLayout& layout);
// Bound for a client's state between tasks of this plan (federated/states/state_blob.h).
int64_t MaxStateBytes(const Plan& plan);

}  // namespace rivulet
