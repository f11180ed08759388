#include "engine/onnx/export/exporter.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/onnx/export/graph_exporter.h"
#include "engine/ops/shape_functions.h"
#include "engine/tensor/float16.h"

namespace rivulet::onnx {

std::vector<int64_t> ToChannelsFirst(int rank) {
  std::vector<int64_t> perm = {0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) perm.push_back(axis);
  return perm;
}

std::vector<int64_t> ToChannelsLast(int rank) {
  std::vector<int64_t> perm = {0};
  for (int axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return perm;
}

StatusOr<int> ExportContext::Rank(int i) const {
  if (shape(i).known_rank()) return shape(i).rank();
  return FailedPrecondition("the rank of '{}' must be known when the model is written", node_.input(i).name());
}

StatusOr<Shape> ExportContext::KnownShape(int i) const {
  if (shape(i).IsFullyKnown()) return shape(i);
  return FailedPrecondition("the shape of '{}', {}, must be known when the model is written", node_.input(i).name(),
                            shape(i).ToString());
}

StatusOr<int> ExportContext::Axis(int64_t axis, int rank) const { return NormalizeAxis(axis, rank); }

bool ExportContext::IsLeftOut(int i) const {
  return shape(i).known_rank() && shape(i).rank() == 1 && shape(i).dim(0) == 0;
}

namespace {

Shape WithoutSymbols(const std::vector<SymbolicDim>& dims, const Shape& otherwise) {
  if (dims.empty()) return otherwise;
  std::vector<int64_t> sizes;
  for (const SymbolicDim& dim : dims) sizes.push_back(dim.size);
  return Shape(std::move(sizes));
}

}  // namespace

Shape ExportContext::OutputShape(int port) const {
  const Output output = const_cast<Node&>(node_).output(port);
  return WithoutSymbols(exporter_.shapes().Of(output), output.shape());
}
Shape ExportContext::InputShape(int i) const {
  return WithoutSymbols(exporter_.shapes().Of(node_.input(i)), node_.input(i).shape());
}

Value ExportContext::input(int i) const { return exporter_.Plain(node_.input(i)); }
std::vector<Value> ExportContext::inputs() const {
  std::vector<Value> values;
  for (int i = 0; i < num_inputs(); ++i) values.push_back(input(i));
  return values;
}
Value ExportContext::channels_first(int i) const { return exporter_.ChannelsFirst(node_.input(i)); }
bool ExportContext::lies_channels_first(int i) const { return exporter_.LiesChannelsFirst(node_.input(i)); }
Value ExportContext::int64s(int i) const { return exporter_.Int64s(node_.input(i)); }

StatusOr<Tensor> ExportContext::Known(int i) const {
  StatusOr<Tensor> value = exporter_.Known(node_.input(i));
  if (!value.ok())
    return Annotate(value.status(),
                    fmt::format("input {} ('{}') must be known when the model is written", i, node_.input(i).name()));
  return value;
}

namespace {

StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.dtype() == DType::kInt32) {
    for (int32_t value : tensor.flat<int32_t>()) values.push_back(value);
  } else if (tensor.dtype() == DType::kInt64) {
    for (int64_t value : tensor.flat<int64_t>()) values.push_back(value);
  } else {
    return InvalidArgument("{} in the place of integers", Name(tensor.dtype()));
  }
  return values;
}

}  // namespace

StatusOr<std::vector<int64_t>> ExportContext::KnownInts(int i) const {
  RIVULET_ASSIGN_OR_RETURN(const Tensor tensor, Known(i));
  return IntegersOf(tensor);
}

StatusOr<int64_t> ExportContext::KnownInt(int i) const {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> values, KnownInts(i));
  if (values.size() != 1) return InvalidArgument("input {} has {} values, not one", i, values.size());
  return values[0];
}

std::optional<std::vector<int64_t>> ExportContext::IntsIfKnown(int i) const {
  const auto values = KnownInts(i);
  return values.ok() ? std::optional(*values) : std::nullopt;
}

Value ExportContext::Arranged(int i, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims,
                              const std::vector<int64_t>& split) const {
  return exporter_.Arranged(node_.input(i), perm, dims, split);
}
Value ExportContext::ValueOf(Output x) const { return exporter_.Plain(x); }

Value ExportContext::Op(std::string_view op, std::vector<Value> inputs, AttrMap attrs) const {
  return exporter_.Emitted(op, std::move(inputs), attrs);
}
std::vector<Value> ExportContext::All(std::string_view op, std::vector<Value> inputs, int outputs,
                                      AttrMap attrs) const {
  return exporter_.EmittedAll(op, std::move(inputs), outputs, attrs);
}
Value ExportContext::Const(const Tensor& value) const { return exporter_.Const(value); }
Value ExportContext::Ints(const std::vector<int64_t>& values) const {
  return Const(Tensor::Of<int64_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)));
}
Value ExportContext::Int(int64_t value) const { return Const(Tensor::Scalar(value)); }

Value ExportContext::Scalar(DType dtype, double value) const {
  Tensor tensor(dtype, Shape{});
  switch (dtype) {
    case DType::kFloat32:
      tensor.flat<float>()[0] = static_cast<float>(value);
      break;
    case DType::kFloat64:
      tensor.flat<double>()[0] = value;
      break;
    case DType::kFloat16:
      tensor.flat<float16>()[0] = float16(static_cast<float>(value));
      break;
    case DType::kBFloat16:
      tensor.flat<bfloat16>()[0] = bfloat16(static_cast<float>(value));
      break;
    case DType::kInt32:
      tensor.flat<int32_t>()[0] = static_cast<int32_t>(value);
      break;
    case DType::kInt64:
      tensor.flat<int64_t>()[0] = static_cast<int64_t>(value);
      break;
    case DType::kBool:
      tensor.flat<bool>()[0] = value != 0;
      break;
    default:
      // Small whole numbers, in little-endian bytes.
      RIVULET_CHECK(value >= 0 && value < 128 && value == static_cast<int>(value));
      tensor.data()[0] = static_cast<std::byte>(value);
  }
  return Const(tensor);
}

Value ExportContext::Cast(const Value& x, DType to) const { return Op("Cast", {x}, {{"to", to}}); }
Value ExportContext::Transpose(const Value& x, const std::vector<int64_t>& perm) const {
  return std::ranges::is_sorted(perm) ? x : Op("Transpose", {x}, {{"perm", perm}});
}
Value ExportContext::Reshape(const Value& x, const std::vector<int64_t>& dims) const {
  return Op("Reshape", {x, Ints(dims)});
}
Value ExportContext::Squeeze(const Value& x, std::vector<int64_t> axes) const {
  return axes.empty() ? x : Op("Squeeze", {x, Ints(axes)});
}
Value ExportContext::Unsqueeze(const Value& x, std::vector<int64_t> axes) const {
  return axes.empty() ? x : Op("Unsqueeze", {x, Ints(axes)});
}
Value ExportContext::Slice(const Value& x, int64_t axis, int64_t begin, int64_t end) const {
  return Op("Slice", {x, Ints({begin}), Ints({end}), Ints({axis})});
}
Value ExportContext::Concat(std::vector<Value> parts, int64_t axis) const {
  return parts.size() == 1 ? parts[0] : Op("Concat", std::move(parts), {{"axis", axis}});
}

void ExportContext::set_output(int port, Value value) {
  exporter_.Set(const_cast<Node&>(node_).output(port), Exporter::Order::kPlain, value);
}
void ExportContext::set_output_channels_first(int port, Value value) {
  exporter_.Set(const_cast<Node&>(node_).output(port), Exporter::Order::kChannelsFirst, value);
}
void ExportContext::set_output_int64(int port, Value value) {
  const Output output = const_cast<Node&>(node_).output(port);
  exporter_.Set(output, output.dtype() == DType::kInt64 ? Exporter::Order::kPlain : Exporter::Order::kInt64, value);
}
void ExportContext::Forward(int port, int i) {
  exporter_.Forward(const_cast<Node&>(node_).output(port), node_.input(i));
}
bool ExportContext::IsUsed(int port) const { return exporter_.IsUsed(const_cast<Node&>(node_).output(port)); }
Status ExportContext::RefuseOutput(int port, std::string_view what) const {
  if (!IsUsed(port)) return absl::OkStatus();
  return Unimplemented("its output {}, {}, is used, which no operator of ONNX's gives", port, what);
}

// A bias added to a product is an input of the product in ONNX, if nothing else uses the sum without it.
bool ExportContext::AddBias(int i, const Value& bias) {
  const Output x = node_.input(i);
  if (!exporter_.IsUsedOnce(x)) return false;
  proto::NodeProto* maker = exporter_.writer().MakerOf(lies_channels_first(i) ? channels_first(i) : input(i));
  if (maker == nullptr || maker->input_size() != 2) return false;
  const bool product = x.node->type() == "MatMul" && IsFloating(x.dtype()) &&
                       (maker->op_type() == "MatMul" || maker->op_type() == "Gemm");
  if (!product && maker->op_type() != "Conv" && maker->op_type() != "ConvTranspose") return false;
  // The bias must be there before the product: a weight is, a value that some node made need not be.
  if (exporter_.writer().MakerOf(bias) != nullptr) return false;
  if (product) maker->set_op_type("Gemm");
  maker->add_input(bias);
  return true;
}

// Elementwise operators work in any layout, so they keep that of their input. Restoring the layout for each would put a
// Transpose on both sides of every activation.
Status Elementwise(ExportContext& n, const std::function<Value(const Value& x)>& emit) {
  if (n.lies_channels_first(0)) {
    n.set_output_channels_first(0, emit(n.channels_first(0)));
  } else {
    n.set_output(0, emit(n.input(0)));
  }
  return absl::OkStatus();
}

Status ElementwisePair(ExportContext& n, const std::function<Value(const Value& x, const Value& y)>& emit) {
  const int led = n.lies_channels_first(0) ? 0 : n.lies_channels_first(1) ? 1 : -1;
  if (led >= 0) {
    const int other = 1 - led, rank = n.shape(led).rank();
    const Shape& shape = n.shape(other);
    Value value;
    if (shape.known_rank() && shape.rank() == rank) {
      value = n.channels_first(other);
    } else if (shape.known_rank() && shape.rank() == 0) {
      value = n.input(other);
    } else if (shape.known_rank() && shape.rank() == 1) {  // of channels
      std::vector<int64_t> axes;
      for (int axis = 1; axis < rank - 1; ++axis) axes.push_back(axis);
      value = n.Unsqueeze(n.input(other), axes);
    }
    if (!value.empty()) {
      const Value first = n.channels_first(led);
      n.set_output_channels_first(0, led == 0 ? emit(first, value) : emit(value, first));
      return absl::OkStatus();
    }
  }
  n.set_output(0, emit(n.input(0), n.input(1)));
  return absl::OkStatus();
}

ExporterRegistry& ExporterRegistry::Global() {
  static ExporterRegistry registry;
  return registry;
}

void ExporterRegistry::Register(std::string_view op, ExportFunction function) {
  const bool added = functions_.emplace(std::string(op), function).second;
  RIVULET_CHECK(added, "two exporters for the op {}", op);
}

ExportFunction ExporterRegistry::Find(std::string_view op) const {
  const auto found = functions_.find(op);
  return found == functions_.end() ? nullptr : found->second;
}

std::vector<std::string> ExporterRegistry::All() const {
  std::vector<std::string> ops;
  for (const auto& [op, function] : functions_) ops.push_back(op);
  return ops;
}

}  // namespace rivulet::onnx
