// Bodies of calls over HTTP: requests of the Open Inference Protocol with its binary extension, and of TensorFlow
// Serving's REST calls. Internal to this folder.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "serving/inference.h"

namespace rivulet {

// A request with its rewritten values.
struct InferBody {
  InferenceCall call;
  std::deque<std::string> made;
  std::vector<std::pair<std::string, bool>> binary;  // by output: whether the answer has binary values
  bool binary_by_default = false;                    // for all other outputs
};

// A JSON value takes some forty bytes in memory and as few as two in a body, so values are counted before any is read:
// `most_values` limits names, numbers and brackets together.
//
// `length`: the length of the JSON before the binary values, from a header field; "": there are no binary values. The
// call's values are views of `body` and of `made`. INVALID_ARGUMENT: no JSON, a missing field or one of another kind,
// values out of the type's range, binary data of another length, too many values.
Status ReadInferBody(std::string_view body, std::string_view length, int64_t most_values, InferBody& request);

struct PredictBody {
  std::deque<std::string> made;
  bool rows = false;  // "instances", answered by "predictions"; else "inputs", answered by "outputs"
};

// Values are read by the names and types of `inputs`. INVALID_ARGUMENT as above, and for ragged arrays.
Status ReadPredictBody(std::string_view body, int64_t most_values, std::span<const ServedInput> inputs,
                       PredictBody& request, InferenceCall& call);

}  // namespace rivulet
