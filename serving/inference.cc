#include "serving/inference.h"

#include <algorithm>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

using Done = std::function<void(const Status& status, const InferenceAnswer* answer)>;

// State of a request until its answer.
struct Under {
  InferenceCall call;
  Route route;
  std::vector<BoundInput> inputs;  // in order of the plan's inputs
  std::vector<size_t> outputs;     // indices of the plan's outputs
  Done done;
};

std::vector<std::string> InputNames(const ServedPlan& plan) {
  std::vector<std::string> names;
  for (const ServedInput& input : plan.inputs()) names.push_back(input.name);
  return names;
}

Status BindInputs(Under& request, int64_t max_rows) {
  const ServedPlan& plan = *request.route.version->plan;
  const auto inputs = plan.inputs();
  if (request.call.inputs.size() != inputs.size())
    return InvalidArgument("the request has {} inputs, and '{}' takes {}: {}", request.call.inputs.size(),
                           request.call.model, inputs.size(), Join(InputNames(plan), ", "));
  request.inputs.resize(inputs.size());
  for (const WireTensor& given : request.call.inputs) {
    const auto input = std::ranges::find(inputs, given.name, &ServedInput::name);
    if (input == inputs.end())
      return InvalidArgument("'{}' has no input '{}'; it takes {}", request.call.model, Shortened(given.name),
                             Join(InputNames(plan), ", "));
    BoundInput& bound = request.inputs[static_cast<size_t>(input - inputs.begin())];
    if (bound.data != nullptr) return InvalidArgument("the input '{}' is given twice", given.name);
    RIVULET_ASSIGN_OR_RETURN(bound, Bind(*input, given, max_rows));
    if (bound.rows != request.inputs[0].rows && request.inputs[0].data != nullptr)
      return InvalidArgument("the input '{}' has {} examples, and '{}' has {}", given.name, bound.rows, inputs[0].name,
                             request.inputs[0].rows);
  }
  for (const BoundInput& bound : request.inputs)
    if (bound.rows != request.inputs[0].rows) return InvalidArgument("the inputs have unlike numbers of examples");
  return absl::OkStatus();
}

Status FindOutputs(Under& request) {
  const auto outputs = request.route.version->plan->outputs();
  for (const std::string& name : request.call.outputs) {
    const auto found = std::ranges::find(outputs, name, &ServedOutput::name);
    if (found == outputs.end()) {
      std::vector<std::string> names;
      for (const ServedOutput& output : outputs) names.push_back(output.name);
      return InvalidArgument("'{}' has no output '{}'; it has {}", request.call.model, Shortened(name),
                             Join(names, ", "));
    }
    const auto index = static_cast<size_t>(found - outputs.begin());
    if (std::ranges::count(request.outputs, index) > 0)
      return InvalidArgument("the output '{}' is requested twice", name);
    request.outputs.push_back(index);
  }
  if (request.outputs.empty())
    for (size_t i = 0; i < outputs.size(); ++i) request.outputs.push_back(i);
  return absl::OkStatus();
}

void Answer(const Under& request, const Status& status, std::span<const TensorView> values, const RequestTimes& times) {
  request.route.Tell(status, request.inputs.empty() ? 0 : request.inputs[0].rows, times);
  if (!status.ok()) return request.done(status, nullptr);
  std::vector<InferenceOutput> outputs;
  for (const size_t index : request.outputs)
    outputs.push_back({request.route.version->plan->outputs()[index].name, values[index]});
  const InferenceAnswer answer{*request.route.version, outputs};
  request.done(status, &answer);
}

}  // namespace

void Infer(ModelServer& server, InferenceCall call, Done done) {
  auto request = std::make_shared<Under>();
  request->call = std::move(call);
  request->done = std::move(done);
  const std::string& user = request->call.user.empty() ? request->call.id : request->call.user;
  StatusOr<Route> route =
      server.Choose(request->call.model, request->call.version, user.empty() ? server.NextKey() : user);
  if (!route.ok()) return request->done(route.status(), nullptr);
  request->route = *std::move(route);
  Status status = BindInputs(*request, server.batcher().options().max_batch);
  if (status.ok()) status = FindOutputs(*request);
  if (!status.ok()) return Answer(*request, status, {}, {});
  BatchedRequest batched{.version = request->route.version, .rows = request->inputs[0].rows};
  for (const BoundInput& bound : request->inputs) batched.inputs.push_back(bound.data);
  batched.deadline = request->call.deadline;
  batched.gone = request->call.gone;
  batched.done = [request](const Status& result, std::span<const TensorView> values, const RequestTimes& times) {
    Answer(*request, result, values, times);
  };
  server.batcher().Submit(std::move(batched));
}

}  // namespace rivulet
