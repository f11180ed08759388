#include "engine/input/pipeline_registry.h"

#include "engine/graph/function.h"
#include "engine/graph/inference.h"

namespace rivulet {

std::string PipelineArguments::where() const { return DescribeNode(node); }

StatusOr<int64_t> PipelineArguments::Integer(size_t i, std::string_view name) const {
  const Tensor& tensor = tensors[i];
  if (tensor.elements() == 1 && tensor.shape().rank() == 0) {
    if (tensor.dtype() == DType::kInt64) return tensor.flat<int64_t>()[0];
    if (tensor.dtype() == DType::kInt32) return int64_t{tensor.flat<int32_t>()[0]};
  }
  return InvalidArgument("{}: {} must be an integer scalar, not {}{}", where(), name, Name(tensor.dtype()),
                         tensor.shape().ToString());
}

StatusOr<bool> PipelineArguments::Boolean(size_t i, std::string_view name) const {
  const Tensor& tensor = tensors[i];
  if (tensor.shape().rank() == 0 && tensor.dtype() == DType::kBool) return tensor.flat<bool>()[0];
  return InvalidArgument("{}: {} must be a bool scalar, not {}{}", where(), name, Name(tensor.dtype()),
                         tensor.shape().ToString());
}

StatusOr<std::vector<TensorSpec>> PipelineArguments::OutputSpecs() const {
  const auto* types = node.FindAttr<std::vector<DType>>("output_types");
  if (types == nullptr) types = node.FindAttr<std::vector<DType>>("Toutput_types");
  const auto* shapes = node.FindAttr<std::vector<Shape>>("output_shapes");
  RIVULET_CHECK(types != nullptr && shapes != nullptr, "{} lists no outputs", where());
  if (types->size() != shapes->size())
    return InvalidArgument("{}: {} output types and {} output shapes", where(), types->size(), shapes->size());
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < types->size(); ++i) specs.push_back({(*types)[i], (*shapes)[i]});
  return specs;
}

// Shapes of consumers were inferred from the element specs in the graph; a stage with other elements is refused when it
// is built.
StatusOr<std::vector<TensorSpec>> PipelineArguments::Check(const std::vector<TensorSpec>& computed) const {
  RIVULET_ASSIGN_OR_RETURN(std::vector<TensorSpec> said, OutputSpecs());
  bool fits = said.size() == computed.size();
  for (size_t i = 0; fits && i < said.size(); ++i)
    fits = said[i].dtype == computed[i].dtype && Shape::Compatible(said[i].shape, computed[i].shape);
  if (!fits)
    return InvalidArgument("{}: its elements are {}, but output_types and output_shapes say {}", where(),
                           Describe(computed), Describe(said));
  for (size_t i = 0; i < said.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(said[i].shape, Shape::Merge(said[i].shape, computed[i].shape));
  }
  return said;
}

StatusOr<std::shared_ptr<const Function>> PipelineArguments::FunctionOf(std::string_view attr) const {
  const std::string& name = node.attr<FunctionRef>(attr).name;
  const auto found = graph.functions().find(name);
  if (found == graph.functions().end())
    return NotFound("{}: attribute '{}' names the function '{}', which the graph does not have", where(), attr, name);
  return found->second;
}

StreamKey PipelineArguments::NextStream() const {
  StreamKey stream = environment->rng;
  const uint32_t stage = random_stages == nullptr ? 0 : static_cast<uint32_t>((*random_stages)++);
  // The first stage uses the environment's own stream, so that a lone shuffle equals the built-in one.
  stream.key.words[1] ^= stage * 0x9E3779B9u;
  return stream;
}

PipelineRegistry& PipelineRegistry::Global() {
  static PipelineRegistry* const registry = new PipelineRegistry();
  return *registry;
}

void PipelineRegistry::Register(std::string op, MakePipelineFn make, const char* file, int line) {
  const auto [entry, inserted] =
      entries_.try_emplace(std::move(op), Entry{std::move(make), fmt::format("{}:{}", file, line)});
  RIVULET_CHECK(inserted, "the dataset op '{}' is registered at {} and at {}:{}", entry->first,
                entry->second.registered_at, file, line);
}

const MakePipelineFn* PipelineRegistry::Find(std::string_view op) const {
  const auto found = entries_.find(op);
  return found == entries_.end() ? nullptr : &found->second.make;
}

}  // namespace rivulet
