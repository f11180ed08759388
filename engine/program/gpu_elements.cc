#include "engine/program/gpu_elements.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace rivulet {
namespace {

using Kind = ElementOperand::Kind;

constexpr int kNever = -1;

// Assigns each step's result to a slot: one that is no longer needed, or a new one. Stored results are needed until the
// end.
class Slots {
 public:
  explicit Slots(const ElementProgram& program) : last_(program.steps.size(), kNever) {
    const int end = static_cast<int>(program.steps.size());
    for (int i = 0; i < end; ++i) {
      for (const ElementOperand& operand : program.steps[static_cast<size_t>(i)].operands)
        if (operand.kind == Kind::kStep) last_[static_cast<size_t>(operand.index)] = i;
    }
    for (const ElementTarget& target : program.targets) last_[static_cast<size_t>(target.step)] = end;
    for (int i = 0; i < end; ++i) of_.push_back(Take(i));
  }
  int of(int step) const { return of_[static_cast<size_t>(step)]; }
  int count() const { return static_cast<int>(free_from_.size()); }

 private:
  int Take(int step) {
    // Operands are read before the result is stored, so a slot may pass from one to the other.
    const auto found = std::ranges::find_if(free_from_, [&](int from) { return from <= step; });
    const auto slot = static_cast<size_t>(found - free_from_.begin());
    if (found == free_from_.end()) free_from_.push_back(0);
    free_from_[slot] = std::max(last_[static_cast<size_t>(step)], step + 1);
    return static_cast<int>(slot);
  }

  std::vector<int> last_;       // by step: the last step that reads it
  std::vector<int> free_from_;  // by slot: the first step that may reuse it
  std::vector<int> of_;
};

class ElementChain final : public GpuKernel, public GpuElements {
 public:
  explicit ElementChain(ElementProgram program) : program_(std::move(program)) {
    RIVULET_CHECK(FitsElementChain(program_), "a chain of elements is longer than its kernel takes");
    const Slots slots(program_);
    arguments_.count = program_.count;
    arguments_.step_count = static_cast<int32_t>(program_.steps.size());
    arguments_.target_count = static_cast<int32_t>(program_.targets.size());
    std::ranges::copy(program_.inputs, arguments_.places);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const ElementStep& step = program_.steps[i];
      ElementStepArguments& to = arguments_.steps[i];
      to.code = step.code;
      arguments_.parameters[i] = step.parameter;
      // Unused operands repeat the first one.
      for (size_t k = 0; k < std::size(to.operands); ++k)
        to.operands[k] = PlaceOf(step.operands[k < step.operands.size() ? k : 0], slots);
      to.slot = static_cast<uint8_t>(slots.of(static_cast<int>(i)));
    }
    for (size_t i = 0; i < program_.targets.size(); ++i) {
      arguments_.target_slots[i] = static_cast<uint8_t>(slots.of(program_.targets[i].step));
      arguments_.target_types[i] = program_.targets[i].type;
    }
  }

  const ElementProgram& elements() const override { return program_; }

  Status Launch(const GpuContext& context) const override {
    ElementChainArguments a = arguments_;
    size_t source = 0;
    const auto read = [&](const GpuOperand& operand) {
      a.sources[source] = operand.data;
      a.source_strides[source++] = operand.lane_stride;
    };
    for (const GpuOperand& input : context.inputs) read(input);
    for (const GpuOperand& variable : context.variables) read(variable);
    for (size_t i = 0; i < program_.targets.size(); ++i) {
      const ElementTarget& target = program_.targets[i];
      const auto& places = target.kind == Kind::kVariable ? context.variables : context.outputs;
      const GpuOperand& place = places[static_cast<size_t>(target.index)];
      a.targets[i] = place.data;
      a.target_strides[i] = place.lane_stride;
    }
    a.lanes = context.lanes.count;
    a.ids = context.lanes.ids;
    return context.stream->Launch(program_.dtype == DType::kFloat64 ? kElementChainDouble : kElementChainFloat, a);
  }

 private:
  uint8_t PlaceOf(const ElementOperand& operand, const Slots& slots) const {
    switch (operand.kind) {
      case Kind::kInput:
        return static_cast<uint8_t>(operand.index);
      case Kind::kVariable:
        return static_cast<uint8_t>(static_cast<int>(program_.inputs.size()) + operand.index);
      case Kind::kStep:
        return static_cast<uint8_t>(kMostElementSources + slots.of(operand.index));
    }
    return 0;
  }

  const ElementProgram program_;
  ElementChainArguments arguments_{};
};

}  // namespace

bool FitsElementChain(const ElementProgram& program) {
  return static_cast<int>(program.inputs.size()) + program.variables <= kMostElementSources &&
         std::ssize(program.steps) <= kMostElementSteps && std::ssize(program.targets) <= kMostElementTargets &&
         Slots(program).count() <= kMostElementSlots;
}

std::optional<ElementProgram> JoinElements(const ElementProgram& producer, const ElementProgram& consumer, size_t link,
                                           const std::vector<int>& input_of) {
  RIVULET_CHECK(producer.targets.size() == 1 && producer.variables == 0, "a chain begins with what makes one tensor");
  ElementProgram joined = consumer;
  joined.inputs.clear();
  joined.steps.clear();
  const auto take = [&](const ElementPlace& source, int at) {
    if (static_cast<size_t>(at) >= joined.inputs.size()) joined.inputs.resize(static_cast<size_t>(at) + 1);
    joined.inputs[static_cast<size_t>(at)] = source;
  };
  for (size_t i = 0; i < producer.inputs.size(); ++i) take(producer.inputs[i], input_of[i]);
  // The consumer's inputs without the link, mapped by input_of.
  const auto consumer_input = [&](size_t i) { return input_of[producer.inputs.size() + i - (i > link ? 1 : 0)]; };
  for (size_t i = 0; i < consumer.inputs.size(); ++i)
    if (i != link) take(consumer.inputs[i], consumer_input(i));

  // The producer's steps are placed directly before the first that reads their result, so that few results are live.
  const auto reads_link = [&](const ElementStep& step) {
    return std::ranges::find(step.operands, ElementOperand{Kind::kInput, static_cast<int>(link)}) !=
           step.operands.end();
  };
  const auto first = static_cast<int>(std::ranges::find_if(consumer.steps, reads_link) - consumer.steps.begin());
  const int added = static_cast<int>(producer.steps.size());
  const auto moved = [&](int step) { return step < first ? step : step + added; };
  for (int i = 0; i <= static_cast<int>(consumer.steps.size()); ++i) {
    if (i == first) {
      for (ElementStep step : producer.steps) {
        for (ElementOperand& operand : step.operands) {
          if (operand.kind == Kind::kStep) operand.index += first;
          if (operand.kind == Kind::kInput) operand.index = input_of[static_cast<size_t>(operand.index)];
        }
        joined.steps.push_back(std::move(step));
      }
    }
    if (i == static_cast<int>(consumer.steps.size())) break;
    ElementStep step = consumer.steps[static_cast<size_t>(i)];
    for (ElementOperand& operand : step.operands) {
      if (operand.kind == Kind::kStep) {
        operand.index = moved(operand.index);
      } else if (operand.kind == Kind::kInput && static_cast<size_t>(operand.index) == link) {
        operand = {Kind::kStep, first + producer.targets[0].step};
      } else if (operand.kind == Kind::kInput) {
        operand.index = consumer_input(static_cast<size_t>(operand.index));
      }
    }
    joined.steps.push_back(std::move(step));
  }
  for (ElementTarget& target : joined.targets) target.step = moved(target.step);
  if (!FitsElementChain(joined)) return std::nullopt;
  return joined;
}

std::unique_ptr<const Kernel> NewElementChain(ElementProgram program) {
  return std::make_unique<ElementChain>(std::move(program));
}

}  // namespace rivulet
