#include "dataflow/cluster/wire.h"

#include <algorithm>
#include <vector>

#include "engine/base/shown_text.h"
#include "engine/graphdef/proto_conversion.h"

namespace rivulet {
namespace {

// In one piece are the lengths of all texts as varints, then their bytes.
StatusOr<proto::TensorProto> WithSingleTexts(const proto::TensorProto& packed) {
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(packed.tensor_shape()));
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
  const std::string& content = packed.tensor_content();
  const Status refused = InvalidArgument("a string tensor of shape {} has a content of {} bytes that does not fit it",
                                         shape.ToString(), content.size());
  if (static_cast<uint64_t>(elements) > content.size()) return refused;  // each length takes a byte at least
  std::vector<uint64_t> lengths;
  size_t at = 0;
  while (lengths.size() < static_cast<size_t>(elements)) {
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at == content.size() || shift > 28) return refused;
      const auto byte = static_cast<unsigned char>(content[at++]);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
    }
    lengths.push_back(length);
  }
  proto::TensorProto texts;
  texts.set_dtype(packed.dtype());
  *texts.mutable_tensor_shape() = packed.tensor_shape();
  for (const uint64_t length : lengths) {
    if (length > content.size() - at) return refused;
    texts.add_string_val(content.substr(at, length));
    at += length;
  }
  if (at != content.size()) return refused;
  return texts;
}

}  // namespace

StatusOr<Tensor> TensorFrom(const proto::TensorProto& tensor, size_t& repeated) {
  if (tensor.dtype() != proto::DT_STRING || tensor.tensor_content().empty()) return TensorFromProto(tensor, repeated);
  RIVULET_ASSIGN_OR_RETURN(const proto::TensorProto texts, WithSingleTexts(tensor));
  return TensorFromProto(texts, repeated);
}

StatusOr<NamedTensors> TensorsFrom(const google::protobuf::RepeatedPtrField<tensorflow::NamedTensorProto>& tensors) {
  NamedTensors converted;
  size_t repeated = kMostRepeatedBytes;
  for (const tensorflow::NamedTensorProto& tensor : tensors) {
    StatusOr<Tensor> value = TensorFrom(tensor.tensor(), repeated);
    if (!value.ok()) return Annotate(value.status(), fmt::format("the tensor '{}'", Shortened(tensor.name())));
    converted.emplace_back(tensor.name(), *std::move(value));
  }
  return converted;
}

void ToProto(const NamedTensors& tensors, google::protobuf::RepeatedPtrField<tensorflow::NamedTensorProto>* out) {
  for (const auto& [name, value] : tensors) {
    tensorflow::NamedTensorProto* const made = out->Add();
    made->set_name(name);
    ToProto(value, made->mutable_tensor());
  }
}

TaskDevice DeviceFrom(const tensorflow::DeviceAttributes& device) {
  return {device.name(), device.device_type(), device.memory_limit(), device.incarnation()};
}

void ToProto(const TaskDevice& device, tensorflow::DeviceAttributes* out) {
  out->set_name(device.name);
  out->set_device_type(device.type);
  out->set_memory_limit(device.memory_limit);
  out->set_incarnation(device.incarnation);
}

Status StatusFrom(int code, const std::string& message) {
  if (code == 0) return absl::OkStatus();
  constexpr size_t kLongest = 16 << 10;
  const auto known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated)
                         ? static_cast<absl::StatusCode>(code)
                         : absl::StatusCode::kUnknown;
  return Status(known, message.substr(0, kLongest));
}

std::string BodyText(const Status& status) { return std::string(Message(status)); }

}  // namespace rivulet
