// Upper bounds of the bytes that a coordinator may send for a plan's tasks. The plan alone says them, so a client knows
// each before the download starts.
#pragma once

#include <cstdint>

#include "federated/plan/plan.h"

namespace rivulet {

// Of a model version: a safetensors file of this layout with what a coordinator writes beside it, or the same values
// encoded (federated/download/download.h).
int64_t MaxModelBytes(const ModelLayout& layout);
// Of the file that a base of this layout travels as (federated/weights/base.h). It may have values of variables that
// are trained, beside those of the base's own.
int64_t MaxBaseBytes(const ModelLayout& layout);
// Of a vector that a task names beside its model: exactly the trainable elements.
int64_t MaxBroadcastBytes(const ModelLayout& layout);
// Of what a client of this plan keeps from task to task (federated/states/state_blob.h).
int64_t MaxStateBytes(const Plan& plan);

}  // namespace rivulet
