#include "client/training/pass_steps.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "client/training/task_streams.h"
#include "engine/base/vlog.h"
#include "engine/profile/step_monitor.h"
#include "federated/plan/plan_input.h"

namespace rivulet {
namespace {

// Examples one by one, for a plan's input. The examples must outlive it.
class ExampleElements : public ElementSource {
 public:
  ExampleElements(const ExampleSource& examples, const Plan& plan) : examples_(examples), plan_(plan) {}
  StatusOr<std::vector<Component>> Read(int64_t index) const override {
    std::vector<Component> components;
    std::vector<TensorView> rows;
    for (const FeatureSpec& feature : plan_.features()) {
      const bool integers = feature.encoding == FeatureSpec::Encoding::kInt64;
      RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(integers ? DType::kInt64 : DType::kFloat32, feature.shape));
      rows.push_back(value.view());
      components.emplace_back(std::move(value));
    }
    const uint32_t wanted = static_cast<uint32_t>(index);
    RIVULET_RETURN_IF_ERROR(examples_.Decode({&wanted, 1}, rows));
    return components;
  }

 private:
  const ExampleSource& examples_;
  const Plan& plan_;
};

// Skips as many batches as there are, at most `count`.
Status Skip(const LaneRun& lane, PipelineIterator& batches, uint64_t count) {
  for (; count > 0; --count) {
    Element batch;
    RIVULET_ASSIGN_OR_RETURN(const bool more, batches.Next(lane.cancel, batch));
    if (!more) break;
  }
  return absl::OkStatus();
}

}  // namespace

Status PassSteps::Run(LaneRun& lane, BoundPass& pass) {
  return pass.pass->input != nullptr ? OverInput(lane, pass) : OverEpochs(lane, pass);
}

Status PassSteps::Run(LaneRun& lane, BoundProgram& program) {
  lane.bindings.arena = passes_.arena();  // a batch of a new size may have enlarged it
  lane.bindings.max_loop_steps = loops_.max_steps;
  lane.bindings.deadline = std::chrono::steady_clock::now() + loops_.max_time;
  return program.instance->Run(lane.bindings, lane.cancel);
}

Status PassSteps::Step(LaneRun& lane, const BoundPass& pass, BoundProgram& program, int64_t count) {
  lane.bindings.feeds = program.feeds;
  lane.bindings.fetches = pass.fetches;
  {
    MonitoredRun watched(monitor_, lane.bindings);
    RIVULET_RETURN_IF_ERROR(Run(lane, program));
    watched.Done();
  }
  lane.bindings.feeds = {};
  lane.bindings.fetches = {};
  RIVULET_VLOG(2, "client '{}': step {}, {} examples, {}", lane.client_id, lane.at.step, count,
               fmt::join(pass.values, " "));
  lane.Count(*pass.pass, pass.values, count);
  if (lane.checkpoint != nullptr && lane.checkpoint->Due()) lane.checkpoint->Keep(lane.at, lane.own);
  return absl::OkStatus();
}

Status PassSteps::OverEpochs(LaneRun& lane, BoundPass& bound) {
  const LocalPass& pass = *bound.pass;
  const int64_t size = lane.size, batch_size = std::min(pass.batch_size, size);
  RIVULET_ASSIGN_OR_RETURN(BoundProgram* const whole, passes_.Step(bound, batch_size, lane.from_base));
  BoundProgram* rest = nullptr;
  if (size % batch_size != 0 && !lane.from_base) {
    RIVULET_ASSIGN_OR_RETURN(rest, passes_.Step(bound, size % batch_size));
  }
  const uint64_t last = lane.LastStep(pass);
  for (; lane.MayBegin(pass, last); ++lane.at.epoch) {
    lane.BeginEpoch(pass);
    OrderInto(order_, lane.task, lane.at.epoch, lane.size, pass.shuffle);
    while (lane.at.seen < size && lane.at.step < last) {
      const int64_t count = std::min(batch_size, size - lane.at.seen);
      BoundProgram& program = count == batch_size ? *whole : *rest;
      RIVULET_RETURN_IF_ERROR(lane.examples.Decode(
          std::span(order_).subspan(static_cast<size_t>(lane.at.seen), static_cast<size_t>(count)), program.feeds));
      RIVULET_RETURN_IF_ERROR(Step(lane, bound, program, count));
    }
  }
  return absl::OkStatus();
}

Status PassSteps::OverInput(LaneRun& lane, BoundPass& bound) {
  const LocalPass& pass = *bound.pass;
  RIVULET_ASSIGN_OR_RETURN(const auto input,
                           BuildInput(plan_, pass, std::make_shared<ExampleElements>(lane.examples, plan_), lane.size,
                                      StreamOf(lane.task, Purpose::kShuffle)));
  IteratorContext context;
  context.budget = InputBudgetFor(pass, lane.size);
  const uint64_t last = lane.LastStep(pass);
  // An input's shuffling may depend on its earlier elements: epochs of an earlier process are read again.
  for (uint64_t epoch = lane.at.pass_epoch; lane.goes_on && epoch < lane.at.epoch; ++epoch) {
    RIVULET_ASSIGN_OR_RETURN(const auto batches, input->MakeIterator(context));
    RIVULET_RETURN_IF_ERROR(Skip(lane, *batches, UINT64_MAX));
  }
  for (; lane.MayBegin(pass, last); ++lane.at.epoch) {
    lane.BeginEpoch(pass);
    RIVULET_ASSIGN_OR_RETURN(const auto batches, input->MakeIterator(context));
    RIVULET_RETURN_IF_ERROR(Skip(lane, *batches, lane.at.batches));
    while (lane.at.step < last) {
      Element batch;
      StatusOr<bool> more = batches->Next(lane.cancel, batch);
      if (!more.ok()) return Annotate(more.status(), fmt::format("the input of plan '{}'", plan_.name()));
      if (!*more) break;
      RIVULET_ASSIGN_OR_RETURN(const auto fed, passes_.Feed(bound, batch));
      RIVULET_RETURN_IF_ERROR(Step(lane, bound, *fed.first, fed.second));
    }
    if (lane.at.seen == 0)
      return FailedPrecondition("the input of plan '{}' gives no batch of the {} examples of client '{}'", plan_.name(),
                                lane.size, lane.client_id);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
