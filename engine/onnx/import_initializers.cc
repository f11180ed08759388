// Initializers: weights as variables, in the layout that the graph wants them in, and everything else as constants.
#include <cstring>

#include "engine/onnx/arrange.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/tensor.h"
#include "engine/variables/variables.h"

namespace rivulet::onnx {
namespace {

// One value everywhere, as the scales and offsets of fresh normalisations have.
bool IsNew(const Tensor& value) {
  const size_t size = SizeOf(value.dtype());
  return value.bytes() <= size || std::memcmp(value.data(), value.data() + size, value.bytes() - size) == 0;
}

}  // namespace

// A graph inside a node receives outer values in the model's layout.
void Importer::FindUsesInside(const proto::GraphProto& graph) {
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) layouts_[input] = Layout::kModel;
    for (const auto& attr : node.attribute())
      if (attr.has_g()) FindUsesInside(attr.g());
  }
  for (const auto& output : graph.output()) layouts_[output.name()] = Layout::kModel;
}

// Rivulet's convolutions and products need their weights in another layout than ONNX's. If all uses of a weight agree,
// it is stored in this layout. If a use needs the model's layout, it is kept, and the other uses transpose it.
void Importer::FindUses(const proto::NodeProto& node) {
  const std::string domain = DomainOf(node.domain());
  const bool ours = domain.empty() && !functions_.contains({domain, node.op_type(), node.overload()});
  const auto transposes = [&](const char* name) {
    for (const auto& attr : node.attribute())
      if (attr.name() == name) return attr.i() != 0;
    return false;
  };
  for (const auto& attr : node.attribute())
    if (attr.has_g()) FindUsesInside(attr.g());
  for (int i = 0; i < node.input_size(); ++i) {
    Layout layout = Layout::kModel;
    if (ours && i == 1 && (node.op_type() == "Conv" || node.op_type() == "ConvTranspose")) layout = Layout::kFilter;
    if (ours && i == 1 && node.op_type() == "Gemm" && transposes("transB")) layout = Layout::kMatrix;
    const auto [known, first] = layouts_.emplace(node.input(i), layout);
    if (!first && known->second != layout) known->second = Layout::kModel;
    if (ours && node.op_type() == "Identity" && node.output_size() == 1) copies_[node.output(0)] = node.input(i);
  }
}

std::vector<int64_t> Importer::StoredOrder(const std::string& name, const Tensor& value) const {
  const auto layout = layouts_.find(name);
  if (layout == layouts_.end()) return {};
  const int rank = value.shape().rank();
  if (layout->second == Layout::kFilter && rank == 4) return {2, 3, 1, 0};
  if (layout->second == Layout::kFilter && rank == 3) return {2, 1, 0};
  if (layout->second == Layout::kMatrix && rank == 2) return {1, 0};
  return {};
}

Output Importer::Variable(OnnxWeight& weight) {
  const std::string wanted = GraphName(weight.name, "weight");
  std::string variable = wanted;
  for (int count = 1; root_.graph().Find(variable) != nullptr; ++count) variable = fmt::format("{}_{}", wanted, count);
  const DType dtype = weight.value.dtype();
  AttrMap attrs = {{"dtype", dtype},
                   {"shape", weight.value.shape()},
                   {"shared_name", variable},
                   {std::string(kSegmentAttr), weight.segment}};
  if (!weight.perm.empty()) attrs["_onnx_perm"] = weight.perm;
  const Output handle = root_.Op("VarHandleOp", {}, std::move(attrs), variable);
  weight.variable = variable;
  if (!handle) return {};
  return root_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}}, variable + "/Read");
}

// The order goes along with the weight, so that a trained one can be written back as the model had it.
Output Importer::Weight(const std::string& name, Tensor value) {
  OnnxWeight weight{name, "", places_.Of(name).role == Role::kStatistic ? "shared" : "trainable", std::move(value), {}};
  if (const std::vector<int64_t> order = StoredOrder(name, weight.value); !order.empty()) {
    StatusOr<Tensor> arranged = ArrangeTensor(weight.value, order);
    if (!arranged.ok()) {
      root_.Fail(arranged.status());
      return {};
    }
    weight.value = *std::move(arranged);
    weight.perm = InversePermutation(order);
  }
  const Output read = body_ != nullptr ? body_->weight(weight) : Variable(weight);
  if (!weight.perm.empty() && read) stored_[name] = {read, weight.perm};
  out_.weights.push_back(std::move(weight));
  return read;
}

// Fresh normalisations have equal scales, which some exporters write once and under one name. Trained, they would move
// together, as the module's do not.
Status Importer::CheckMerged(const std::string& name, const Tensor& value) const {
  if (body_ == nullptr || !IsNew(value) || places_.IsNamed(name) || places_.Overruled(name)) return absl::OkStatus();
  const std::vector<std::string> norms = places_.Normalisations(name);
  if (norms.size() < 2) return absl::OkStatus();
  return InvalidArgument(
      "the initializer '{}' is the scale or offset of '{}' and '{}': the exporter merged equal parameters, which would "
      "train as one. Export with torch.onnx.export(dynamo=True, optimize=False), or name it in model.trainable where "
      "it is one",
      name, norms[0], norms[1]);
}

// The weight with a name of its own whose transpose `value` is, bit for bit; "" where there is none, and for a value
// that is the same everywhere, which says nothing.
StatusOr<std::string> Importer::OriginalOf(const std::string& name, const Tensor& value) const {
  if (value.shape().rank() != 2 || IsNew(value) || places_.NamesParameters() || places_.Overruled(name))
    return std::string();
  for (const proto::TensorProto& other : model_.graph().initializer()) {
    if (other.dims_size() != 2 || other.dims(0) != value.shape().dim(1) || other.dims(1) != value.shape().dim(0) ||
        WeightPlaces::IsMade(other.name()) || options_.constants.contains(other.name()) ||
        places_.Of(other.name()).role != Role::kWeight)
      continue;
    RIVULET_ASSIGN_OR_RETURN(const Tensor original, TensorFromOnnx(other, {options_.folder}));
    if (original.dtype() != value.dtype()) continue;
    RIVULET_ASSIGN_OR_RETURN(const Tensor transposed, ArrangeTensor(original, {1, 0}));
    if (std::memcmp(transposed.data(), value.data(), value.bytes()) == 0) return other.name();
  }
  return std::string();
}

Status Importer::AddInitializers(Frame& frame) {
  if (model_.graph().sparse_initializer_size() > 0)
    return Unimplemented("sparse initializers; '{}' is one", model_.graph().sparse_initializer(0).values().name());
  std::map<std::string, const proto::TensorProto*> weights;
  std::vector<std::pair<std::string, std::string>> copies;
  for (const proto::TensorProto& initializer : model_.graph().initializer()) {
    const std::string& name = initializer.name();
    if (options_.constants.contains(name)) continue;
    StatusOr<Tensor> value = TensorFromOnnx(initializer, {options_.folder});
    if (!value.ok()) return Annotate(value.status(), fmt::format("the initializer '{}'", name));
    initialized_.insert(name);
    const bool floats = IsFloating(value->dtype()) && value->elements() > 0;
    Placed placed = places_.Of(name);
    if (value->shape().rank() == 0 && !places_.IsNamed(name) && placed.role != Role::kConstant)
      placed = {Role::kConstant, "a single number that the model does not name as a parameter"};
    const bool weight = floats && placed.role != Role::kConstant;
    // Folded at the export, the head of a language model is a copy of its embedding under a name of the exporter's.
    if (weight && WeightPlaces::IsMade(name)) {
      RIVULET_ASSIGN_OR_RETURN(const std::string original, OriginalOf(name, *value));
      if (!original.empty()) {
        copies.emplace_back(name, original);
        out_.initializers.push_back(
            {name, std::string(Name(placed.role)), fmt::format("'{}' transposed, tied", original)});
        continue;
      }
    }
    if (floats && value->shape().rank() > 0)
      out_.initializers.push_back({name, std::string(Name(placed.role)), placed.why});
    if (weight) RIVULET_RETURN_IF_ERROR(CheckMerged(name, *value));
    const Output output =
        weight ? Weight(name, *std::move(value)) : root_.Const(*std::move(value), GraphName(name, "constant"));
    RIVULET_RETURN_IF_ERROR(root_.status());
    RIVULET_RETURN_IF_ERROR(Bind(frame, name, output));
    if (weight) weights.emplace(name, &initializer);
  }
  for (const auto& [copy, original] : copies) {
    const auto stored = stored_.find(original);
    const bool transposed = stored != stored_.end() && stored->second.perm == std::vector<int64_t>{1, 0};
    const Builder b(root_);
    RIVULET_RETURN_IF_ERROR(
        Bind(frame, copy, transposed ? stored->second.stored : b.Transpose(frame.values.at(original), {1, 0})));
    RIVULET_RETURN_IF_ERROR(root_.status());
  }
  // Exporters write equal tensors once, and give each its name by an Identity. Running statistics that begin as a
  // weight does are variables of their own; so are parameters that the model names, and weights of one value
  // everywhere, which are equal because they are new. Others are tied.
  for (const auto& [copy, original] : copies_) {
    const auto found = weights.find(original);
    if (found == weights.end()) continue;
    RIVULET_ASSIGN_OR_RETURN(Tensor value, TensorFromOnnx(*found->second, {options_.folder}));
    const Placed placed = places_.Of(copy), before = places_.Of(original);
    const bool statistic = placed.role == Role::kStatistic && before.role != Role::kStatistic;
    const bool parameter = placed.role == Role::kWeight && (places_.IsNamed(copy) || IsNew(value));
    if (!statistic && !parameter) continue;
    out_.initializers.push_back({copy, std::string(Name(placed.role)), placed.why});
    RIVULET_RETURN_IF_ERROR(Bind(frame, copy, Weight(copy, std::move(value))));
    RIVULET_RETURN_IF_ERROR(root_.status());
    made_.insert(copy);
  }
  return absl::OkStatus();
}

}  // namespace rivulet::onnx
