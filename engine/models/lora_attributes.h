// Attributes by which a graph describes its adapters. They are attributes of A's VarHandleOp.
#pragma once

#include <cstdint>
#include <string>

#include "engine/graph/attr.h"
#include "engine/models/weight_uses.h"

namespace rivulet {

AttrMap LoraAttributes(const std::string& variable, const WeightUse& use, int64_t rank, double scale, double dropout);

}  // namespace rivulet
