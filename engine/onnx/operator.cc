#include "engine/onnx/operator.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/onnx/known_values.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

using proto::AttributeProto;

template <typename T, typename Out>
void Append(const Tensor& tensor, std::vector<Out>& values) {
  for (T value : tensor.flat<T>()) values.push_back(static_cast<Out>(value));
}

template <typename Out>
bool AppendIntegers(const Tensor& tensor, std::vector<Out>& values) {
  switch (tensor.dtype()) {
    case DType::kInt8:
      Append<int8_t>(tensor, values);
      return true;
    case DType::kInt16:
      Append<int16_t>(tensor, values);
      return true;
    case DType::kInt32:
      Append<int32_t>(tensor, values);
      return true;
    case DType::kInt64:
      Append<int64_t>(tensor, values);
      return true;
    case DType::kUint8:
      Append<uint8_t>(tensor, values);
      return true;
    case DType::kUint16:
      Append<uint16_t>(tensor, values);
      return true;
    case DType::kUint32:
      Append<uint32_t>(tensor, values);
      return true;
    case DType::kUint64:
      Append<uint64_t>(tensor, values);
      return true;
    case DType::kBool:
      Append<bool>(tensor, values);
      return true;
    default:
      return false;
  }
}

// The kind of an attribute without `type`: determined by the field that is set.
int KindOf(const AttributeProto& attr) {
  if (attr.type() != AttributeProto::UNDEFINED) return attr.type();
  if (attr.has_f()) return AttributeProto::FLOAT;
  if (attr.has_i()) return AttributeProto::INT;
  if (attr.has_s()) return AttributeProto::STRING;
  if (attr.has_t()) return AttributeProto::TENSOR;
  if (attr.has_g()) return AttributeProto::GRAPH;
  if (attr.floats_size() > 0) return AttributeProto::FLOATS;
  if (attr.ints_size() > 0) return AttributeProto::INTS;
  if (attr.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

}  // namespace

NodeContext::NodeContext(const proto::NodeProto& node, int64_t opset, const Builder& builder,
                         std::vector<Output> inputs, KnownValues& known, std::vector<StoredWeight*> stored,
                         ModelForm* form)
    : node_(node),
      opset_(opset),
      builder_(builder),
      inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(node.output_size())),
      known_(known),
      stored_(std::move(stored)),
      form_(form) {}

Output NodeContext::input(int i) const {
  if (!has_input(i)) {
    if (status().ok()) builder_.Fail(InvalidArgument("needs input {}, and has {}", i, num_inputs()));
    return {};
  }
  StoredWeight* weight = stored(i);
  if (weight == nullptr) return inputs_[static_cast<size_t>(i)];
  if (!weight->model) weight->model = builder_.Transpose(weight->stored, weight->perm);
  return weight->model;
}

Output NodeContext::optional_input(int i) const { return has_input(i) ? input(i) : Output{}; }

Output NodeContext::Transposed(int i, const std::vector<int64_t>& perm) const {
  if (const StoredWeight* weight = stored(i); weight != nullptr && weight->perm.size() == perm.size()) {
    bool same = true;
    for (size_t axis = 0; axis < perm.size(); ++axis)
      same = same && weight->perm[static_cast<size_t>(perm[axis])] == static_cast<int64_t>(axis);
    if (same) return weight->stored;
  }
  return builder_.Transpose(input(i), perm);
}

bool NodeContext::Trains(bool model_says) const {
  if (form_ == nullptr) return model_says;
  form_->differs = true;
  return form_->training;
}

void NodeContext::set_output(int i, Output value) {
  if (i < num_outputs()) outputs_[static_cast<size_t>(i)] = value;
}

const AttributeProto* NodeContext::Find(std::string_view name, int kind) const {
  for (const AttributeProto& attr : node_.attribute()) {
    if (attr.name() != name) continue;
    const int given = KindOf(attr);
    // An empty list may come without any sign of its kind.
    if (kind != 0 && given != kind && given != AttributeProto::UNDEFINED) {
      if (status().ok())
        builder_.Fail(
            InvalidArgument("the attribute '{}' must be {}, but is {}", name,
                            AttributeProto::AttributeType_Name(static_cast<AttributeProto::AttributeType>(kind)),
                            AttributeProto::AttributeType_Name(static_cast<AttributeProto::AttributeType>(given))));
      return nullptr;
    }
    return &attr;
  }
  return nullptr;
}

int64_t NodeContext::Int(std::string_view name, int64_t otherwise) const {
  const AttributeProto* attr = Find(name, AttributeProto::INT);
  return attr == nullptr ? otherwise : attr->i();
}
double NodeContext::Float(std::string_view name, double otherwise) const {
  const AttributeProto* attr = Find(name, AttributeProto::FLOAT);
  return attr == nullptr ? otherwise : attr->f();
}
std::string NodeContext::String(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* attr = Find(name, AttributeProto::STRING);
  return attr == nullptr ? std::string(otherwise) : attr->s();
}
std::vector<int64_t> NodeContext::Ints(std::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeProto* attr = Find(name, AttributeProto::INTS);
  return attr == nullptr ? otherwise : std::vector<int64_t>(attr->ints().begin(), attr->ints().end());
}
std::vector<float> NodeContext::Floats(std::string_view name) const {
  const AttributeProto* attr = Find(name, AttributeProto::FLOATS);
  return attr == nullptr ? std::vector<float>() : std::vector<float>(attr->floats().begin(), attr->floats().end());
}
std::vector<std::string> NodeContext::Strings(std::string_view name) const {
  const AttributeProto* attr = Find(name, AttributeProto::STRINGS);
  return attr == nullptr ? std::vector<std::string>()
                         : std::vector<std::string>(attr->strings().begin(), attr->strings().end());
}
StatusOr<Tensor> NodeContext::TensorAttr(std::string_view name) const {
  const AttributeProto* attr = Find(name, AttributeProto::TENSOR);
  if (attr == nullptr) return status().ok() ? InvalidArgument("needs the attribute '{}', a tensor", name) : status();
  StatusOr<Tensor> tensor = TensorFromOnnx(attr->t());
  if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("the attribute '{}'", name));
  return tensor;
}
Status NodeContext::Refuse(std::string_view attr) const {
  if (!has_attr(attr)) return absl::OkStatus();
  return Fail(Unimplemented("the attribute '{}'", attr));
}

StatusOr<Tensor> NodeContext::Value(int i) const {
  const Output output = input(i);
  if (!status().ok()) return status();
  StatusOr<Tensor> value = known_.Value(output);
  if (!value.ok()) return Annotate(value.status(), fmt::format("the value of input {} must be known", i));
  return value;
}

StatusOr<std::vector<int64_t>> NodeContext::IntValues(int i) const {
  RIVULET_ASSIGN_OR_RETURN(const Tensor value, Value(i));
  std::vector<int64_t> values;
  if (!AppendIntegers(value, values)) return InvalidArgument("input {} is {}, not integers", i, Name(value.dtype()));
  return values;
}

StatusOr<int64_t> NodeContext::IntValue(int i) const {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntValues(i));
  if (values.size() != 1) return InvalidArgument("input {} has {} elements, not one", i, values.size());
  return values[0];
}

StatusOr<std::vector<double>> NodeContext::NumberValues(int i) const {
  RIVULET_ASSIGN_OR_RETURN(const Tensor value, Value(i));
  std::vector<double> values;
  if (value.dtype() == DType::kFloat64) {
    Append<double>(value, values);
  } else if (value.dtype() == DType::kFloat32) {
    Append<float>(value, values);
  } else if (!AppendIntegers(value, values)) {
    // float16 and bfloat16: the engine knows how to read them.
    RIVULET_ASSIGN_OR_RETURN(const Tensor wide, known_.Value(b().Cast(input(i), DType::kFloat32)));
    Append<float>(wide, values);
  }
  return values;
}

std::optional<std::vector<int64_t>> NodeContext::IntValuesIfKnown(int i) const {
  if (!has_input(i) || !known_.Knows(input(i))) return std::nullopt;
  const StatusOr<std::vector<int64_t>> values = IntValues(i);
  if (!values.ok()) return std::nullopt;
  return *values;
}

StatusOr<std::vector<Dimension>> NodeContext::IntElements(int i) const {
  const Output output = input(i);
  if (!status().ok()) return status();
  const Elements* const elements = known_.symbols().ValueOf(output);
  const bool known = elements != nullptr && std::ranges::all_of(elements->values, &Dimension::IsNumber);
  if (elements == nullptr || (!known && known_.Knows(output))) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntValues(i));
    return std::vector<Dimension>(values.begin(), values.end());
  }
  for (size_t at = 0; at < elements->values.size(); ++at) {
    std::vector<int> symbols;
    elements->values[at].AddSymbols(symbols);
    for (const int id : symbols)
      if (known_.symbols().symbol(id).fed)
        return Annotate(known_.Unknown(elements->values[at]),
                        fmt::format("element {} of input {} must be known", at, i));
  }
  return elements->values;
}

Output NodeContext::Element(int i, const std::vector<Dimension>& elements, size_t at) const {
  if (elements[at].IsNumber()) return b().Int(elements[at].number());
  const Output vector = b().Cast(input(i), DType::kInt64);
  return ShapeOf(vector).rank() == 0 ? vector : b().At(vector, 0, static_cast<int64_t>(at));
}

StatusOr<std::vector<Dimension>> NodeContext::Sizes(int i) const {
  if (IsStored(i)) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, KnownShape(i));
    return std::vector<Dimension>(shape.dims().begin(), shape.dims().end());
  }
  RIVULET_RETURN_IF_ERROR(Rank(i).status());
  return *known_.symbols().SizesOf(input(i));
}

StatusOr<int> NodeContext::Rank(int i) const {
  if (const StoredWeight* weight = stored(i)) return static_cast<int>(weight->perm.size());
  const Output output = input(i);
  if (!status().ok()) return status();
  if (!output.shape().known_rank()) return FailedPrecondition("the rank of input {} must be known", i);
  return output.shape().rank();
}

StatusOr<Shape> NodeContext::KnownShape(int i) const {
  if (const StoredWeight* weight = stored(i)) {
    Shape shape = weight->stored.shape();
    for (int axis = 0; axis < shape.rank(); ++axis)
      shape.set_dim(axis, weight->stored.shape().dim(static_cast<int>(weight->perm[static_cast<size_t>(axis)])));
    return shape;
  }
  const Output output = input(i);
  if (!status().ok()) return status();
  if (!output.shape().IsFullyKnown())
    return FailedPrecondition("the shape of input {} must be known, but is {}; give the sizes of the model's inputs", i,
                              output.shape().ToString());
  return output.shape();
}

StatusOr<int> NodeContext::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) return InvalidArgument("axis {} of a tensor with {} axes", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

StatusOr<std::vector<int64_t>> NodeContext::Axes(std::vector<int64_t> axes, int rank) const {
  for (int64_t& axis : axes) {
    RIVULET_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  std::ranges::sort(axes);
  const auto twice = std::ranges::adjacent_find(axes);
  if (twice != axes.end()) return InvalidArgument("axis {} is named twice", *twice);
  return axes;
}

OperatorRegistry& OperatorRegistry::Global() {
  static OperatorRegistry registry;
  return registry;
}

void OperatorRegistry::Register(Operator op) {
  const std::pair key(op.domain, op.name);
  RIVULET_CHECK(operators_.emplace(key, std::move(op)).second, "the ONNX operator '{}' is registered twice",
                key.second);
}

const Operator* OperatorRegistry::Find(std::string_view domain, std::string_view name) const {
  const auto found = operators_.find({domain == "ai.onnx" ? "" : std::string(domain), std::string(name)});
  return found == operators_.end() ? nullptr : &found->second;
}

std::vector<const Operator*> OperatorRegistry::All() const {
  std::vector<const Operator*> all;
  for (const auto& [key, op] : operators_) all.push_back(&op);
  return all;
}

}  // namespace rivulet::onnx
