#include "engine/graph/inference.h"

#include <map>

#include "engine/graph/node_error.h"

namespace rivulet {
namespace {

class NodeInference final : public InferenceContext {
 public:
  NodeInference(const InferenceNode& node, const ShapeLookup& shape_of, std::vector<TensorSpec>& outputs)
      : node_(node), shape_of_(shape_of), outputs_(outputs) {}

  std::string_view node_name() const override { return node_.name; }
  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  const Shape& input(int i) const override { return shape_of_(In(i)); }
  DType input_dtype(int i) const override { return In(i).dtype(); }
  const Tensor* input_value(int i) const override {
    const Output output = In(i);
    // A Const's own tensor needs no copy.
    if (output.node->type() == "Const") return output.node->FindAttr<Tensor>("value");
    auto [found, inserted] = values_.try_emplace(i);
    if (inserted) found->second = ConstantValue(output, shape_of_);
    return found->second ? &*found->second : nullptr;
  }
  std::optional<rivulet::Shape> input_as_shape(int i) const override { return ValueAsShape(In(i), shape_of_); }
  const AttrMap& attrs() const override { return node_.attrs; }
  const Function* FindFunction(std::string_view name) const override {
    return node_.graph == nullptr ? nullptr : node_.graph->FindFunction(name);
  }
  void set_output(int i, Shape shape) override { outputs_[static_cast<size_t>(i)].shape = std::move(shape); }

 private:
  Output In(int i) const { return node_.inputs[static_cast<size_t>(i)]; }

  const InferenceNode& node_;
  const ShapeLookup& shape_of_;
  std::vector<TensorSpec>& outputs_;
  mutable std::map<int, std::optional<Tensor>> values_;
};

}  // namespace

StatusOr<std::vector<TensorSpec>> InferOutputs(const InferenceNode& node, const ShapeLookup& shape_of) {
  std::vector<TensorSpec> outputs;
  for (DType dtype : OutputTypes(node.op, node.attrs)) outputs.push_back({dtype, Shape::UnknownRank()});
  if (!node.op.shape) return outputs;
  NodeInference context(node, shape_of, outputs);
  const Status status = node.op.shape(context);
  if (!status.ok()) return ExplainShapeError(node, shape_of, context, status);
  // Refuses sizes that overflow, once for every op.
  for (size_t i = 0; i < outputs.size(); ++i) {
    Shape& shape = outputs[i].shape;
    int64_t product = 1;
    bool empty = false;
    for (int64_t size : shape.dims()) {
      if (size < kUnknownDim)
        return InvalidArgument("{}: output {} has the impossible shape {}", node.where, i, shape.ToString());
      empty |= size == 0;
    }
    for (int64_t size : shape.dims()) {
      if (empty || size == kUnknownDim) continue;
      if (__builtin_mul_overflow(product, size, &product) || product > (int64_t{1} << 40))
        return InvalidArgument("{}: output {} of shape {} has more than 2^40 elements", node.where, i,
                               shape.ToString());
    }
  }
  return outputs;
}

}  // namespace rivulet
