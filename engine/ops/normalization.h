// What the shape functions of normalisations share.
#pragma once

#include <string>

#include "engine/ops/shape_functions.h"

namespace rivulet {

// The axis of channels of `x`, whose rank is known: the last ("NHWC", …), or the second ("NCHW", …). INVALID_ARGUMENT
// when `x` has fewer than two axes.
StatusOr<int> NormalizedChannelAxis(const Shape& x, const std::string& data_format);

// Merges what input `i`, one value per channel, tells into `channels`. INVALID_ARGUMENT, by the input's name, when it
// is no vector or of another length.
Status MergeChannels(const InferenceContext& c, int i, std::string_view name, Shape& channels);

}  // namespace rivulet
