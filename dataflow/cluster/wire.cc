#include "dataflow/cluster/wire.h"

#include <algorithm>

#include "engine/base/shown_text.h"
#include "engine/graphdef/proto_conversion.h"

namespace rivulet {

StatusOr<NamedTensors> TensorsFrom(const google::protobuf::RepeatedPtrField<tensorflow::NamedTensorProto>& tensors) {
  NamedTensors converted;
  size_t repeated = kMostRepeatedBytes;
  for (const tensorflow::NamedTensorProto& tensor : tensors) {
    StatusOr<Tensor> value = TensorFromProto(tensor.tensor(), repeated);
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
