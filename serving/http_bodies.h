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

// A request with the values that had to be rewritten.
struct InferBody {
  InferenceCall call;
  std::deque<std::string> made;
  std::vector<std::pair<std::string, bool>> binary;  // by output: whether its values are binary in the answer
  bool binary_by_default = false;                    // of all others
};

// A JSON value takes some forty bytes in memory and as few as two in a body, so that values are counted before any is
// read: `most_values` is a bound for names, numbers and brackets together.
//
// `length` is that of the JSON in front of the binary values, as a field says it; "": there are none. The call's values
// are views of `body` and of `made`. INVALID_ARGUMENT: no JSON, a field that is missing or of another kind, values that
// the type does not hold, binary data of another length, more values.
Status ReadInferBody(std::string_view body, std::string_view length, int64_t most_values, InferBody& request);

struct PredictBody {
  std::deque<std::string> made;
  bool rows = false;  // "instances", answered by "predictions"; else "inputs", answered by "outputs"
};

// The names and types of `inputs` say how values are read. INVALID_ARGUMENT as above, and unlike nested arrays.
Status ReadPredictBody(std::string_view body, int64_t most_values, std::span<const ServedInput> inputs,
                       PredictBody& request, InferenceCall& call);

}  // namespace rivulet
