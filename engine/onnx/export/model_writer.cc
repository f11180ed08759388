#include "engine/onnx/export/model_writer.h"

#include <algorithm>

#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

constexpr size_t kAlignment = 64;      // of values in a second file
constexpr size_t kInlineBytes = 1024;  // smaller ones stay in the model

Status FillTensor(const Tensor& value, proto::TensorProto& proto) {
  RIVULET_ASSIGN_OR_RETURN(const int type, OnnxFromDType(value.dtype()));
  proto.set_data_type(type);
  for (int64_t dim : value.shape().dims()) proto.add_dims(dim);
  return absl::OkStatus();
}

Status FillAttribute(std::string_view name, const AttrValue& value, proto::AttributeProto& proto) {
  using proto::AttributeProto;
  proto.set_name(std::string(name));
  if (const auto* i = std::get_if<int64_t>(&value)) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(*i);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(*flag ? 1 : 0);
  } else if (const auto* f = std::get_if<float>(&value)) {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(*s);
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    RIVULET_ASSIGN_OR_RETURN(const int type, OnnxFromDType(*dtype));
    proto.set_type(AttributeProto::INT);
    proto.set_i(type);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    proto.set_type(AttributeProto::INTS);
    for (int64_t element : *ints) proto.add_ints(element);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    proto.set_type(AttributeProto::FLOATS);
    for (float element : *floats) proto.add_floats(element);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    proto.set_type(AttributeProto::STRINGS);
    for (const std::string& element : *strings) proto.add_strings(element);
  } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
    proto.set_type(AttributeProto::TENSOR);
    RIVULET_RETURN_IF_ERROR(FillTensor(*tensor, *proto.mutable_t()));
    proto.mutable_t()->set_raw_data(tensor->data(), tensor->bytes());
  } else {
    return Internal("the attribute '{}' has a type that ONNX has not", name);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<int> OnnxFromDType(DType dtype) {
  using proto::TensorProto;
  switch (dtype) {
    case DType::kFloat32:
      return TensorProto::FLOAT;
    case DType::kFloat64:
      return TensorProto::DOUBLE;
    case DType::kFloat16:
      return TensorProto::FLOAT16;
    case DType::kBFloat16:
      return TensorProto::BFLOAT16;
    case DType::kInt8:
      return TensorProto::INT8;
    case DType::kInt16:
      return TensorProto::INT16;
    case DType::kInt32:
      return TensorProto::INT32;
    case DType::kInt64:
      return TensorProto::INT64;
    case DType::kUint8:
      return TensorProto::UINT8;
    case DType::kUint16:
      return TensorProto::UINT16;
    case DType::kUint32:
      return TensorProto::UINT32;
    case DType::kUint64:
      return TensorProto::UINT64;
    case DType::kBool:
      return TensorProto::BOOL;
    default:
      return Unimplemented("values of type {} in an ONNX model", Name(dtype));
  }
}

std::string ModelWriter::NewName(std::string_view wanted) {
  std::string name(wanted);
  for (int count = 1; !names_.insert(name).second; ++count) name = fmt::format("{}_{}", wanted, count);
  return name;
}

std::vector<Value> ModelWriter::Emit(std::string_view prefix, std::string_view op, std::vector<Value> inputs,
                                     int outputs, const AttrMap& attrs) {
  proto::NodeProto& node = nodes_.emplace_back();
  const std::string wanted = fmt::format("{}/{}", prefix, op);
  std::string name = wanted;
  for (int count = 1; !node_names_.insert(name).second; ++count) name = fmt::format("{}_{}", wanted, count);
  node.set_name(name);
  node.set_op_type(std::string(op));
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();  // optional inputs at the end
  for (Value& input : inputs) node.add_input(std::move(input));
  std::vector<Value> values;
  for (int i = 0; i < outputs; ++i) {
    values.push_back(NewName(i == 0 ? name : fmt::format("{}:{}", name, i)));
    node.add_output(values.back());
    maker_[values.back()] = nodes_.size() - 1;
  }
  for (const auto& [key, value] : attrs) {
    const Status filled = FillAttribute(key, value, *node.add_attribute());
    if (!filled.ok() && status_.ok()) status_ = Annotate(filled, name);
  }
  return values;
}

Value ModelWriter::Constant(const Tensor& value, std::string_view wanted) {
  std::string key = fmt::format("{} {} ", static_cast<int>(value.dtype()), value.shape().ToString());
  key.append(reinterpret_cast<const char*>(value.data()), value.bytes());
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  const Value name = Emit(wanted, "Constant", {}, 1, {{"value", value}})[0];
  constants_.emplace(std::move(key), name);
  return name;
}

Value ModelWriter::Initializer(const Tensor& value, std::string_view wanted, int order) {
  const Value name = NewName(wanted);
  weights_.emplace(name, Weight{value, order});
  return name;
}

proto::NodeProto* ModelWriter::MakerOf(const Value& value) {
  const auto found = maker_.find(value);
  if (found == maker_.end() || nodes_[found->second].output(0) != value) return nullptr;
  return &nodes_[found->second];
}

void ModelWriter::Rename(const Value& from, const Value& to, size_t first_node) {
  for (size_t i = first_node; i < nodes_.size(); ++i) {
    for (std::string& input : *nodes_[i].mutable_input())
      if (input == from) input = to;
    for (std::string& output : *nodes_[i].mutable_output())
      if (output == from) output = to;
  }
  names_.insert(to);
  const auto maker = maker_.find(from);
  if (maker == maker_.end()) return;
  maker_[to] = maker->second;
  maker_.erase(from);
}

namespace {

// Operators whose outputs beyond the first may be omitted. All others have a fixed number.
bool HasOptionalOutputs(std::string_view op) {
  static constexpr std::string_view kOps[] = {"LSTM",
                                              "GRU",
                                              "RNN",
                                              "MaxPool",
                                              "Dropout",
                                              "BatchNormalization",
                                              "Unique",
                                              "LayerNormalization",
                                              "SoftmaxCrossEntropyLoss"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

}  // namespace

void ModelWriter::Prune(const std::vector<Value>& outputs) {
  std::unordered_set<std::string> needed(outputs.begin(), outputs.end());
  std::vector<bool> keep(nodes_.size(), false);
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const std::string& output : nodes_[i].output()) keep[i] = keep[i] || needed.contains(output);
    if (keep[i]) needed.insert(nodes_[i].input().begin(), nodes_[i].input().end());
  }
  std::vector<proto::NodeProto> kept;
  maker_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!keep[i]) continue;
    const bool optional = HasOptionalOutputs(nodes_[i].op_type());
    for (std::string& output : *nodes_[i].mutable_output()) {
      if (optional && !needed.contains(output) && output != nodes_[i].output(0)) output.clear();
      maker_[output] = kept.size();
    }
    while (nodes_[i].output_size() > 1 && nodes_[i].output(nodes_[i].output_size() - 1).empty())
      nodes_[i].mutable_output()->RemoveLast();
    kept.push_back(std::move(nodes_[i]));
  }
  nodes_ = std::move(kept);
  std::erase_if(weights_, [&](const auto& weight) { return !needed.contains(weight.first); });
}

int64_t ModelWriter::parameters() const {
  int64_t elements = 0;
  for (const auto& [name, weight] : weights_) elements += weight.value.elements();
  return elements;
}

uint64_t ModelWriter::initializer_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, weight] : weights_) bytes += weight.value.bytes();
  return bytes;
}

StatusOr<proto::GraphProto> ModelWriter::Finish(const std::string& data_file, std::vector<ExternalPiece>* external) {
  RIVULET_RETURN_IF_ERROR(status_);
  proto::GraphProto graph;
  for (proto::NodeProto& node : nodes_) *graph.add_node() = std::move(node);
  nodes_.clear();
  std::vector<const std::pair<const Value, Weight>*> ordered;
  for (const auto& weight : weights_) ordered.push_back(&weight);
  std::ranges::stable_sort(ordered, {}, [](const auto* weight) { return weight->second.order; });
  uint64_t offset = 0;
  for (const auto* entry : ordered) {
    const Tensor& value = entry->second.value;
    proto::TensorProto& proto = *graph.add_initializer();
    RIVULET_RETURN_IF_ERROR(FillTensor(value, proto));
    proto.set_name(entry->first);
    if (external == nullptr || value.bytes() < kInlineBytes) {
      proto.set_raw_data(value.data(), value.bytes());
      continue;
    }
    const auto say = [&](const char* key, std::string text) {
      auto& pair = *proto.add_external_data();
      pair.set_key(key);
      pair.set_value(std::move(text));
    };
    proto.set_data_location(proto::TensorProto::EXTERNAL);
    say("location", data_file);
    say("offset", fmt::format("{}", offset));
    say("length", fmt::format("{}", value.bytes()));
    external->push_back({offset, value});
    offset += (value.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return graph;
}

}  // namespace rivulet::onnx
