// One request for a prediction, in any protocol: choice of the version, check and conversion of its inputs, its batch,
// its counts.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "serving/model_server.h"
#include "serving/wire_values.h"

namespace rivulet {

// The header that keeps a user's requests on one side of a canary, and the one with the version of an answer.
inline constexpr char kUserHeader[] = "rivulet-user";
inline constexpr char kVersionHeader[] = "rivulet-version";

struct InferenceCall {
  std::string model;
  std::string version;  // a number, a label, or ""
  std::string user;     // decides between canary and stable; "": `id` decides, else a counter
  std::string id;
  std::vector<WireTensor> inputs;
  std::vector<std::string> outputs;  // empty: all
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> gone;
};

struct InferenceOutput {
  std::string_view name;
  TensorView value;  // with a row per example
};

struct InferenceAnswer {
  const LoadedVersion& version;
  std::span<const InferenceOutput> outputs;  // in the order of the call's outputs, else of the plan's
};

// Calls `done` once, on any thread, possibly before this returns; `answer` is null on an error and valid during that
// call. INVALID_ARGUMENT: a missing, unknown or repeated input or output; or as Bind. Other errors as
// ModelServer::Choose and Batcher::Submit. The bytes of the call's inputs must stay valid until `done` is called.
void Infer(ModelServer& server, InferenceCall call,
           std::function<void(const Status& status, const InferenceAnswer* answer)> done);

}  // namespace rivulet
