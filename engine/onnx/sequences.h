// What recurrent layers and ReverseSequence share.
#pragma once

#include "engine/onnx/builder.h"

namespace rivulet::onnx {

// x [batch, time, …] with the first lengths[i] steps of sequence i turned around; `lengths` [batch], integers.
Output ReversedSequences(const Builder& b, Output x, Output lengths);

}  // namespace rivulet::onnx
