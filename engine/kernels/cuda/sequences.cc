#include "engine/kernels/cuda/sequences.h"

namespace rivulet::gpu {

Status CheckActivation(const NodeView& node, const char* attribute, std::string_view usual) {
  const auto& name = node.attr<std::string>(attribute);
  if (name == usual) return absl::OkStatus();
  return Unimplemented("{} with {} '{}' on a GPU; there is that with '{}'", node.node.type(), attribute, name, usual);
}

StatusOr<Sequences> Sequences::Of(const NodeView& node, const Shape& rows, int64_t multiple, size_t lengths) {
  if (node.node.FindAttr<std::string>("recurrent_activation") != nullptr) {
    RIVULET_RETURN_IF_ERROR(CheckActivation(node, "recurrent_activation", "sigmoid"));
    RIVULET_RETURN_IF_ERROR(CheckActivation(node, "activation", "tanh"));
  }
  if (node.attr<float>("clip") > 0) return Unimplemented("{} with a clip on a GPU; leave it out", node.node.type());
  Sequences made;
  made.walk = SequenceWalk::Of(node, rows, multiple);
  RIVULET_RETURN_IF_ERROR(CountOf(made.walk.steps * made.walk.batch * 4 * made.walk.units).status());
  if (made.walk.steps == 0) return Unimplemented("{} over sequences without steps on a GPU", node.node.type());
  SequenceStep& step = made.step;
  step.steps = static_cast<int32_t>(made.walk.steps);
  step.batch = static_cast<int32_t>(made.walk.batch);
  step.units = Divider::Of(made.walk.units);
  step.time_stride = made.walk.time_major ? step.batch : 1;
  step.batch_stride = static_cast<int32_t>(made.walk.row_stride());
  if (IsGiven(node, lengths)) {
    made.lengths = static_cast<int>(lengths);
    step.wide_lengths = node.inputs[lengths].dtype == DType::kInt64 ? 1 : 0;
  }
  return made;
}

SequenceStep Sequences::At(const GpuContext& context, int64_t s) const {
  SequenceStep at = step;
  at.step = StepAt(s);
  at.before = at.step < 0 ? -1 : static_cast<int32_t>(walk.Before(at.step));
  if (lengths >= 0) at.lengths = SpanOf<const void>(context.inputs[static_cast<size_t>(lengths)]);
  return at;
}

}  // namespace rivulet::gpu
