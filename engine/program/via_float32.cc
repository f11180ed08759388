#include "engine/program/via_float32.h"

#include <algorithm>
#include <array>

#include "engine/graph/op.h"
#include "engine/program/concrete_graph.h"
#include "engine/program/gpu_via_float32.h"
#include "engine/program/memory_plan.h"
#include "engine/program/structural_ops.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

int64_t CountOf(const TensorSpec& spec) { return spec.shape.elements(); }

using Converted = ConvertedTensor;

// 16-bit types are storage formats. An op without a 16-bit kernel computes in float32 between two conversions and is
// rounded once, at the end; so 16-bit models need no second set of kernels. Dedicated kernels exist only where that
// would be too slow.
class ViaFloat32Kernel final : public Kernel {
 public:
  explicit ViaFloat32Kernel(Float32Conversions conversions) : with_(std::move(conversions)) {}
  Status Run(const KernelContext& context) const override {
    Addresses& addresses = *static_cast<Addresses*>(context.state);
    const auto start = [](std::vector<std::byte*>& to, std::span<std::byte* const> from) {
      std::copy(from.begin(), from.end(), to.begin());
    };
    start(addresses.inputs, context.inputs);
    start(addresses.outputs, context.outputs);
    start(addresses.variables, context.variables);
    const auto at = [&](const Converted& c) { return context.scratch + c.offset; };
    const auto widen = [&](const Converted& c, const std::byte* from) {
      Float32From16(c.dtype, from, reinterpret_cast<float*>(at(c)), c.count);
      return at(c);
    };
    for (const Converted& c : with_.inputs) addresses.inputs[c.index] = widen(c, context.inputs[c.index]);
    for (const Converted& c : with_.variables) addresses.variables[c.index] = widen(c, context.variables[c.index]);
    for (const Converted& c : with_.outputs) addresses.outputs[c.index] = at(c);

    KernelContext inner = context;
    inner.inputs = addresses.inputs;
    inner.outputs = addresses.outputs;
    inner.variables = addresses.variables;
    inner.state = addresses.inner.get();
    RIVULET_RETURN_IF_ERROR(with_.kernel->Run(inner));

    const auto narrow = [&](const Converted& c, std::byte* to) {
      Float16From32(c.dtype, reinterpret_cast<const float*>(at(c)), to, c.count);
    };
    for (const Converted& c : with_.outputs) {
      if (with_.below_one) KeepBelowOne(c, reinterpret_cast<float*>(at(c)));
      narrow(c, context.outputs[c.index]);
    }
    if (with_.writes_variables)
      for (const Converted& c : with_.variables) narrow(c, context.variables[c.index]);
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override {
    auto state = std::make_unique<Addresses>();
    state->inputs.resize(with_.num_inputs);
    state->outputs.resize(with_.num_outputs);
    state->variables.resize(with_.num_variables);
    state->inner = with_.kernel->NewState();
    return state;
  }

 private:
  // Addresses for the inner kernel, allocated here because a run allocates nothing. They belong to the instance: the
  // kernel is shared by all threads, so the tables cannot be its members.
  struct Addresses final : KernelState {
    std::vector<std::byte*> inputs, outputs, variables;
    std::unique_ptr<KernelState> inner;
  };
  // A uniform number is in [0, 1): values that would round to 1 become the largest number below.
  static void KeepBelowOne(const Converted& c, float* values) {
    const float largest = LargestBelowOne(c.dtype);
    for (int64_t i = 0; i < c.count; ++i) values[i] = std::min(values[i], largest);
  }

  const Float32Conversions with_;
};

// Ops that are one product, whose factors have one type.
constexpr std::array<std::string_view, 8> kProducts = {
    "MatMul", "_FusedMatMul", "BatchMatMul",         "BatchMatMulV2",
    "Conv2D", "_FusedConv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"};

// Builds the same node in float and wraps its kernel.
class ViaFloat32 {
 public:
  ViaFloat32(const NodeView& view, const KernelPolicy& policy) : view_(view), policy_(policy) {}

  StatusOr<Prepared> Prepare() {
    Float32Conversions with;
    RIVULET_ASSIGN_OR_RETURN(Node * node, FloatNode(with.graph));
    const auto prepare = KernelRegistry::Global().Find(node->type(), policy_.device, KernelDType(*node));
    RIVULET_RETURN_IF_ERROR(prepare.status());

    std::vector<TensorSpec> outputs;
    for (size_t port = 0; port < view_.outputs.size(); ++port)
      outputs.push_back({node->outputs()[port].dtype, view_.outputs[port].shape});
    std::vector<const Tensor*> constants;
    for (size_t i = 0; i < view_.constants.size(); ++i)
      constants.push_back(view_.constants[i] == nullptr ? nullptr : &constants_[i]);
    RIVULET_ASSIGN_OR_RETURN(Prepared inner,
                             (**prepare)({*node, inputs_, outputs, variables_, constants, view_.op_index}, policy_));

    size_t offset = RoundUp64(inner.scratch_bytes);
    const auto convert = [&](std::span<const TensorSpec> from, std::span<const TensorSpec> to,
                             std::vector<Converted>& all) {
      for (size_t i = 0; i < from.size(); ++i) {
        if (!Is16BitFloat(from[i].dtype) || to[i].dtype != DType::kFloat32) continue;
        all.push_back({i, from[i].dtype, CountOf(from[i]), offset});
        offset += RoundUp64(static_cast<size_t>(CountOf(from[i])) * sizeof(float));
      }
    };
    convert(view_.inputs, inputs_, with.inputs);
    convert(view_.outputs, outputs, with.outputs);
    convert(view_.variables, variables_, with.variables);
    Prepared prepared;
    // Converted inputs are read before converted outputs are written. All inputs are widened into scratch before any
    // output is narrowed, so an output may reuse an input of the same number of elements, regardless of the inner
    // kernel.
    for (const Converted& in : with.inputs)
      for (const Converted& out : with.outputs)
        if (in.count == out.count)
          prepared.in_place.emplace_back(static_cast<int>(in.index), static_cast<int>(out.index));
    with.num_inputs = view_.inputs.size();
    with.num_outputs = view_.outputs.size();
    with.num_variables = view_.variables.size();
    with.writes_variables = node->op().stateful && !OnlyReadsVariables(node->type());
    with.is_product = std::ranges::find(kProducts, node->type()) != kProducts.end();
    with.below_one = node->type() == "RandomUniform";
    with.kernel = std::move(inner.kernel);
    if (policy_.device == Device::kCuda) {
      prepared.kernel = NewElementsVia(with);
      if (prepared.kernel != nullptr) return WithoutConversions(std::move(prepared), inner);
      prepared.kernel = NewGpuViaFloat32(std::move(with));
    } else {
      prepared.kernel = std::make_unique<ViaFloat32Kernel>(std::move(with));
    }
    prepared.scratch_bytes = offset;
    prepared.implementation = inner.implementation + " via float32";
    prepared.flops = inner.flops;
    return prepared;
  }

 private:
  // One kernel that converts as it reads and stores: no scratch, and in place only for inputs of the result's layout.
  Prepared WithoutConversions(Prepared prepared, const Prepared& inner) const {
    prepared.in_place.clear();
    for (size_t i = 0; i < view_.inputs.size(); ++i)
      if (view_.inputs[i] == view_.outputs[0]) prepared.in_place.emplace_back(static_cast<int>(i), 0);
    prepared.implementation = inner.implementation;
    prepared.flops = inner.flops;
    return prepared;
  }

  static DType Widened(DType dtype) { return Is16BitFloat(dtype) ? DType::kFloat32 : dtype; }

  // The node with every 16-bit type attribute as float, over substitutes for its inputs. A kernel reads attributes and
  // types from its node, so the float kernel needs a float node; a small graph of placeholders and constants is the
  // cheapest one that passes all checks of a real node.
  StatusOr<Node*> FloatNode(Graph& graph) {
    const Node& node = view_.node;
    NodeSpec spec{node.name(), std::string(node.type()), {}, {}, node.attrs(), node.source_line(), node.device()};
    for (const AttrDef& attr : node.op().attrs) {
      const auto found = spec.attrs.find(attr.name);
      if (found == spec.attrs.end()) continue;
      if (DType* dtype = std::get_if<DType>(&found->second)) *dtype = Widened(*dtype);
      if (auto* dtypes = std::get_if<std::vector<DType>>(&found->second))
        for (DType& dtype : *dtypes) dtype = Widened(dtype);
    }
    size_t next_input = 0, next_variable = 0;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      NodeSpec input{fmt::format("{}/input_{}", node.name(), i), "Placeholder", {}, {}, {}, {}, {}};
      const bool resource = node.input(static_cast<int>(i)).dtype() == DType::kResource;
      TensorSpec stand_in = resource ? view_.variables[next_variable++] : view_.inputs[next_input];
      stand_in.dtype = Widened(stand_in.dtype);
      input.attrs = {{"dtype", stand_in.dtype}, {"shape", stand_in.shape}};
      if (resource) {
        input.op = "VarHandleOp";
        variables_.push_back(stand_in);
      } else {
        inputs_.push_back(stand_in);
        constants_.push_back(FloatConstant(view_.constants[next_input++]));
        if (!constants_.back().empty()) {
          input.op = "Const";
          input.attrs = {{"dtype", stand_in.dtype}, {"value", constants_.back()}};
        }
      }
      RIVULET_ASSIGN_OR_RETURN(Node * added, graph.AddNode(std::move(input)));
      spec.inputs.push_back(added->output());
    }
    return graph.AddNode(std::move(spec));
  }

  static Tensor FloatConstant(const Tensor* constant) {
    if (constant == nullptr) return {};
    if (!Is16BitFloat(constant->dtype())) return *constant;
    Tensor wide(DType::kFloat32, constant->shape());
    Float32From16(constant->dtype(), constant->data(), wide.flat<float>().data(), constant->elements());
    return wide;
  }

  const NodeView& view_;
  const KernelPolicy& policy_;
  std::vector<TensorSpec> inputs_, variables_;
  std::vector<Tensor> constants_;  // by input; empty if not constant
};

// The 16-bit types among a node's type attributes.
std::vector<DType> Types16(const Node& node) {
  std::vector<DType> types;
  for (const AttrDef& attr : node.op().attrs) {
    if (const DType* dtype = node.FindAttr<DType>(attr.name); dtype != nullptr && Is16BitFloat(*dtype))
      types.push_back(*dtype);
    if (const auto* dtypes = node.FindAttr<std::vector<DType>>(attr.name); dtypes != nullptr)
      std::copy_if(dtypes->begin(), dtypes->end(), std::back_inserter(types), Is16BitFloat);
  }
  return types;
}

}  // namespace

StatusOr<Prepared> PrepareKernel(const NodeView& node, const KernelPolicy& policy) {
  const KernelRegistry& registry = KernelRegistry::Global();
  const std::string_view op = node.node.type();
  const std::vector<DType> types = Types16(node.node);
  const bool own = std::all_of(types.begin(), types.end(),
                               [&](DType dtype) { return registry.IsRegisteredFor(op, policy.device, dtype); });
  // A kernel registered for 16 bits may refuse a shape with UNIMPLEMENTED; then the float32 kernel is used. Other
  // errors are returned to the user.
  if (own) {
    RIVULET_ASSIGN_OR_RETURN(const PrepareFn* prepare, registry.Find(op, policy.device, KernelDType(node.node)));
    StatusOr<Prepared> prepared = (*prepare)(node, policy);
    if (types.empty() || !absl::IsUnimplemented(prepared.status())) return prepared;
  }
  return ViaFloat32(node, policy).Prepare();
}

bool HasKernelFor(std::string_view op, Device device, DType dtype) {
  const KernelRegistry& registry = KernelRegistry::Global();
  return registry.Find(op, device, dtype).ok() ||
         (Is16BitFloat(dtype) && registry.Find(op, device, DType::kFloat32).ok());
}

}  // namespace rivulet
