// Conversion of tensors, devices and errors to and from the messages of TensorFlow's distributed protocol.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>

#include "dataflow/distributed/remote_task.h"
#include "engine/base/status.h"
#include "proto/distributed/device_attributes.pb.h"
#include "proto/distributed/named_tensor.pb.h"
#include "proto/graph/tensor.pb.h"

namespace rivulet {

// Of one message, sent and received.
inline constexpr int kMaxClusterMessageBytes = (1 << 30) + (1 << 20);
// Bytes that the tensors of one message may make by repeating a value.
inline constexpr size_t kMostRepeatedBytes = size_t{64} << 20;

// INVALID_ARGUMENT: a tensor that is none (engine/graphdef/proto_conversion.h); of several, by its name. Texts may
// stand in one piece, as TensorFlow's client packs them.
StatusOr<Tensor> TensorFrom(const proto::TensorProto& tensor, size_t& repeated);
StatusOr<NamedTensors> TensorsFrom(const google::protobuf::RepeatedPtrField<tensorflow::NamedTensorProto>& tensors);
void ToProto(const NamedTensors& tensors, google::protobuf::RepeatedPtrField<tensorflow::NamedTensorProto>* out);

TaskDevice DeviceFrom(const tensorflow::DeviceAttributes& device);
void ToProto(const TaskDevice& device, tensorflow::DeviceAttributes* out);

// An error from the body of an answer; OK for code 0.
Status StatusFrom(int code, const std::string& message);
// The error as a body carries it: longer than a header may be.
std::string BodyText(const Status& status);

}  // namespace rivulet
