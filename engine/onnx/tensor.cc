#include "engine/onnx/tensor.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include "engine/base/file_system.h"
#include "engine/io/mapped_file.h"

namespace rivulet::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

StatusOr<Shape> ShapeOf(const proto::TensorProto& proto) {
  if (proto.dims_size() > 254) return InvalidArgument("a tensor with {} axes", proto.dims_size());
  Shape shape(std::vector<int64_t>(proto.dims().begin(), proto.dims().end()));
  for (int64_t dim : shape.dims())
    if (dim < 0) return InvalidArgument("the shape {} has a negative dimension", shape.ToString());
  RIVULET_RETURN_IF_ERROR(shape.CheckedElements().status());
  return shape;
}

// Values of a typed field; each must be in the range of T.
template <typename T, typename Field>
Status CopyTyped(const Field& values, Tensor& tensor) {
  std::span<T> out = tensor.flat<T>();
  for (int i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!std::in_range<T>(values[i]))
        return InvalidArgument("element {} is {}, which {} cannot hold", i, values[i], Name(kDTypeOf<T>));
    }
    out[static_cast<size_t>(i)] = static_cast<T>(values[i]);
  }
  return absl::OkStatus();
}

// float16 and bfloat16 stand in int32_data as their bits.
template <typename Field>
Status CopyBits(const Field& values, Tensor& tensor) {
  for (int i = 0; i < values.size(); ++i) {
    if (!std::in_range<uint16_t>(values[i])) return InvalidArgument("element {} is {}, not 16 bits", i, values[i]);
    const auto bits = static_cast<uint16_t>(values[i]);
    std::memcpy(tensor.data() + 2 * static_cast<size_t>(i), &bits, 2);
  }
  return absl::OkStatus();
}

int TypedValues(const proto::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return proto.float_data_size();
    case DType::kFloat64:
      return proto.double_data_size();
    case DType::kInt64:
      return proto.int64_data_size();
    case DType::kUint32:
    case DType::kUint64:
      return proto.uint64_data_size();
    default:
      return proto.int32_data_size();
  }
}

Status FillTyped(const proto::TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return CopyTyped<float>(proto.float_data(), tensor);
    case DType::kFloat64:
      return CopyTyped<double>(proto.double_data(), tensor);
    case DType::kInt64:
      return CopyTyped<int64_t>(proto.int64_data(), tensor);
    case DType::kUint32:
      return CopyTyped<uint32_t>(proto.uint64_data(), tensor);
    case DType::kUint64:
      return CopyTyped<uint64_t>(proto.uint64_data(), tensor);
    case DType::kInt32:
      return CopyTyped<int32_t>(proto.int32_data(), tensor);
    case DType::kInt16:
      return CopyTyped<int16_t>(proto.int32_data(), tensor);
    case DType::kUint16:
      return CopyTyped<uint16_t>(proto.int32_data(), tensor);
    case DType::kInt8:
      return CopyTyped<int8_t>(proto.int32_data(), tensor);
    case DType::kUint8:
      return CopyTyped<uint8_t>(proto.int32_data(), tensor);
    case DType::kBool:
      return CopyTyped<bool>(proto.int32_data(), tensor);
    default:
      return CopyBits(proto.int32_data(), tensor);
  }
}

// The bytes that external_data names: "location" (a plain file name here), "offset", "length".
StatusOr<std::string> ReadExternal(const proto::TensorProto& proto, const ExternalData& external, uint64_t bytes) {
  if (external.folder.empty())
    return Unimplemented("its values are in another file, which is read only if the model is a file too");
  std::string location;
  uint64_t offset = 0, length = bytes;
  for (const auto& entry : proto.external_data()) {
    const auto number = [&](uint64_t& out) {
      const char* end = entry.value().data() + entry.value().size();
      return std::from_chars(entry.value().data(), end, out).ptr == end && !entry.value().empty();
    };
    if (entry.key() == "location") location = entry.value();
    if ((entry.key() == "offset" && !number(offset)) || (entry.key() == "length" && !number(length)))
      return InvalidArgument("the {} of its external data is '{}'", entry.key(), entry.value());
  }
  if (location.empty() || location == "." || location == ".." || location.find('/') != std::string::npos ||
      location.find('\\') != std::string::npos || location.find('\0') != std::string::npos)
    return InvalidArgument("its external data are in '{}', which is no file name beside the model", location);
  if (length != bytes) return InvalidArgument("its external data have {} bytes, but its shape needs {}", length, bytes);
  const auto file = MappedFile::Open(JoinPath(external.folder, location));
  if (!file.ok()) return Annotate(file.status(), fmt::format("its external data '{}'", location));
  if (offset > (*file)->size() || bytes > (*file)->size() - offset)
    return InvalidArgument("its external data end beyond '{}', which has {} bytes", location, (*file)->size());
  std::string data(bytes, '\0');
  if (!(*file)->Copy(offset, std::as_writable_bytes(std::span(data.data(), data.size()))))
    return DataLoss("'{}' could not be read", location);
  return data;
}

Status CheckBools(const Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return absl::OkStatus();
  for (size_t i = 0; i < tensor.bytes(); ++i)
    if (static_cast<uint8_t>(tensor.data()[i]) > 1)
      return InvalidArgument("element {} is {}, not a bool", i, static_cast<int>(tensor.data()[i]));
  return absl::OkStatus();
}

}  // namespace

std::string OnnxTypeName(int number) {
  return proto::TensorProto::DataType_IsValid(number)
             ? proto::TensorProto::DataType_Name(static_cast<proto::TensorProto::DataType>(number))
             : fmt::format("data type {}", number);
}

StatusOr<DType> DTypeFromOnnx(int number) {
  switch (number) {
    case proto::TensorProto::FLOAT:
      return DType::kFloat32;
    case proto::TensorProto::DOUBLE:
      return DType::kFloat64;
    case proto::TensorProto::FLOAT16:
      return DType::kFloat16;
    case proto::TensorProto::BFLOAT16:
      return DType::kBFloat16;
    case proto::TensorProto::INT8:
      return DType::kInt8;
    case proto::TensorProto::INT16:
      return DType::kInt16;
    case proto::TensorProto::INT32:
      return DType::kInt32;
    case proto::TensorProto::INT64:
      return DType::kInt64;
    case proto::TensorProto::UINT8:
      return DType::kUint8;
    case proto::TensorProto::UINT16:
      return DType::kUint16;
    case proto::TensorProto::UINT32:
      return DType::kUint32;
    case proto::TensorProto::UINT64:
      return DType::kUint64;
    case proto::TensorProto::BOOL:
      return DType::kBool;
    default:
      if (!proto::TensorProto::DataType_IsValid(number) || number == proto::TensorProto::UNDEFINED)
        return InvalidArgument("{} is no data type of ONNX's", number);
      return Unimplemented("the data type {}, which Rivulet does not have", OnnxTypeName(number));
  }
}

StatusOr<Tensor> TensorFromOnnx(const proto::TensorProto& proto, const ExternalData& external) {
  RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(proto.data_type()));
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(proto));
  if (proto.has_segment()) return Unimplemented("a tensor in segments");
  const auto elements = static_cast<uint64_t>(shape.elements());
  const uint64_t bytes = elements * SizeOf(dtype);
  std::string read;
  std::string_view raw = proto.raw_data();
  bool typed = !proto.has_raw_data();
  if (proto.data_location() == proto::TensorProto::EXTERNAL) {
    RIVULET_ASSIGN_OR_RETURN(read, ReadExternal(proto, external, bytes));
    raw = read;
    typed = false;
  }
  if (typed) {
    const int values = TypedValues(proto, dtype);
    if (static_cast<uint64_t>(values) != elements)
      return InvalidArgument("the shape {} has {} elements, but {} values of {} are given", shape.ToString(), elements,
                             values, Name(dtype));
  } else if (raw.size() != bytes) {
    return InvalidArgument("{}{} takes {} bytes, but {} are given", Name(dtype), shape.ToString(), bytes, raw.size());
  }
  Tensor tensor(dtype, shape);
  if (typed) {
    RIVULET_RETURN_IF_ERROR(FillTyped(proto, tensor));
  } else {
    if (bytes > 0) std::memcpy(tensor.data(), raw.data(), bytes);
    RIVULET_RETURN_IF_ERROR(CheckBools(tensor));
  }
  return tensor;
}

StatusOr<Tensor> ParseOnnxTensor(std::string_view bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return ResourceExhausted("a TensorProto of {} bytes", bytes.size());
  proto::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_data_type())
    return DataLoss("these bytes are no TensorProto of ONNX's");
  return TensorFromOnnx(proto);
}

}  // namespace rivulet::onnx
