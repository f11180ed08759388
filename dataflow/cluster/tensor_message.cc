#include "dataflow/cluster/tensor_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include "dataflow/cluster/wire.h"
#include "engine/base/shown_text.h"
#include "engine/graphdef/proto_conversion.h"
#include "proto/distributed/worker.pb.h"

namespace rivulet {
namespace {

namespace io = google::protobuf::io;
using Wire = google::protobuf::internal::WireFormatLite;
using Response = tensorflow::RecvTensorResponse;
using Values = proto::TensorProto;

constexpr uint32_t Tag(int field, Wire::WireType type) { return Wire::MakeTag(field, type); }
constexpr uint32_t kTensor = Tag(Response::kTensorFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kContent = Tag(Values::kTensorContentFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED);
// Of what stands beside the values: type, shape, times and options.
constexpr size_t kMostBeside = 64 << 10;
constexpr size_t kMostTensorBytes = static_cast<size_t>(kMaxClusterMessageBytes) - kMostBeside;

// Types of which any bytes are values.
bool InPieces(DType dtype) { return dtype != DType::kString && dtype != DType::kBool && SizeOf(dtype) > 0; }

void AppendVarint(uint32_t tag_or_size, std::string* to) {
  for (; tag_or_size >= 0x80; tag_or_size >>= 7) to->push_back(static_cast<char>(tag_or_size | 0x80));
  to->push_back(static_cast<char>(tag_or_size));
}

// The fields of a message up to `stop`, as they came. False: there are none, or too many bytes of them.
bool ReadUpTo(uint32_t stop, io::CodedInputStream& in, std::string* fields) {
  io::StringOutputStream out(fields);
  io::CodedOutputStream copy(&out);
  for (;;) {
    const uint32_t tag = in.ReadTag();
    if (tag == stop) return true;
    if (tag == 0 || static_cast<size_t>(copy.ByteCount()) > kMostBeside) return false;
    const auto type = Wire::GetTagWireType(tag);
    if (type == Wire::WIRETYPE_START_GROUP || type == Wire::WIRETYPE_END_GROUP) return false;
    if (type == Wire::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t size = 0;
      std::string text;
      if (!in.ReadVarint32(&size) || size > kMostBeside || !in.ReadString(&text, static_cast<int>(size))) return false;
      copy.WriteTag(tag);
      copy.WriteVarint32(size);
      copy.WriteString(text);
    } else if (!Wire::SkipField(&in, tag, &copy)) {
      return false;
    }
  }
}

// Values in one piece that end the message, and fields before them. Null: the message is of another form, or none.
StatusOr<std::optional<Tensor>> ReadInOnePiece(size_t bytes, const std::string& key, io::ZeroCopyInputStream& from) {
  constexpr std::nullopt_t kAnother = std::nullopt;
  io::CodedInputStream in(&from);
  in.SetTotalBytesLimit(static_cast<int>(bytes));
  std::string fields;
  uint32_t size = 0;
  if (!ReadUpTo(kTensor, in, &fields) || !in.ReadVarint32(&size)) return kAnother;
  if (size_t{size} + static_cast<size_t>(in.CurrentPosition()) != bytes) return kAnother;
  Response beside;
  if (!beside.ParseFromString(fields) || beside.has_tensor() || beside.is_dead()) return kAnother;
  fields.clear();
  Values described;
  if (!ReadUpTo(kContent, in, &fields) || !in.ReadVarint32(&size) || !described.ParseFromString(fields))
    return kAnother;
  if (size_t{size} + static_cast<size_t>(in.CurrentPosition()) != bytes) return kAnother;
  const StatusOr<DType> dtype = DTypeFromProto(described.dtype());
  const StatusOr<Shape> shape = ShapeFromProto(described.tensor_shape());
  described.clear_dtype();
  described.clear_tensor_shape();
  described.clear_version_number();
  if (described.ByteSizeLong() != 0) return kAnother;  // values twice, or fields of a later version
  if (!dtype.ok() || !shape.ok() || !InPieces(*dtype)) return kAnother;
  const StatusOr<int64_t> elements = shape->CheckedElements();
  if (!elements.ok() || static_cast<uint64_t>(*elements) * SizeOf(*dtype) != size || size == 0) return kAnother;
  StatusOr<Tensor> tensor = Tensor::Create(*dtype, *shape);
  if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("the tensor '{}'", Shortened(key)));
  if (!in.ReadRaw(tensor->data(), static_cast<int>(size))) return kAnother;
  return std::optional<Tensor>(*std::move(tensor));
}

}  // namespace

// Fields of proto3 in the order of their numbers, as protobuf itself writes them.
StatusOr<TensorMessage> MessageOf(const Tensor& tensor, bool pieces) {
  if (!tensor.empty() && tensor.bytes() > kMostTensorBytes)
    return ResourceExhausted("a tensor of {} bytes is too large to travel; at most {} may, so split it", tensor.bytes(),
                             kMostTensorBytes);
  TensorMessage message;
  if (tensor.empty() || tensor.dtype() == DType::kString || tensor.bytes() == 0) {
    Response response;
    ToProto(tensor, response.mutable_tensor());
    message.head = response.SerializeAsString();
    return message;
  }
  Response described;
  described.mutable_tensor()->set_dtype(static_cast<proto::DataType>(static_cast<int>(tensor.dtype())));
  ToProto(tensor.shape(), described.mutable_tensor()->mutable_tensor_shape());
  message.values = tensor;
  message.in_pieces = pieces && InPieces(tensor.dtype()) && tensor.bytes() > kPieceBytes;
  if (message.in_pieces) {
    described.set_rivulet_values_bytes(tensor.bytes());
    message.head = described.SerializeAsString();
    return message;
  }
  std::string head = described.tensor().SerializeAsString();
  AppendVarint(kContent, &head);
  AppendVarint(static_cast<uint32_t>(tensor.bytes()), &head);
  AppendVarint(kTensor, &message.head);
  AppendVarint(static_cast<uint32_t>(head.size() + tensor.bytes()), &message.head);
  message.head += head;
  return message;
}

StatusOr<std::optional<Tensor>> TensorInPieces(size_t bytes, const std::string& key, io::ZeroCopyInputStream& from) {
  if (bytes > kMostBeside) return std::optional<Tensor>();
  const google::protobuf::LogSilencer silent;
  Response described;
  if (!described.ParseFromZeroCopyStream(&from) || described.rivulet_values_bytes() == 0)
    return std::optional<Tensor>();
  const auto create = [&]() -> StatusOr<Tensor> {
    RIVULET_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(described.tensor().dtype()));
    RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(described.tensor().tensor_shape()));
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
    if (!InPieces(dtype) || static_cast<uint64_t>(elements) * SizeOf(dtype) != described.rivulet_values_bytes() ||
        described.rivulet_values_bytes() > kMostTensorBytes)
      return InvalidArgument("{} {} does not travel in pieces of {} bytes together", Name(dtype), shape.ToString(),
                             described.rivulet_values_bytes());
    return Tensor::Create(dtype, std::move(shape));
  };
  StatusOr<Tensor> tensor = create();
  if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("the tensor '{}'", Shortened(key)));
  return std::optional<Tensor>(*std::move(tensor));
}

StatusOr<Tensor> TensorFromMessage(size_t bytes, const std::string& key,
                                   const std::function<std::unique_ptr<io::ZeroCopyInputStream>()>& open) {
  const google::protobuf::LogSilencer silent;
  RIVULET_ASSIGN_OR_RETURN(std::optional<Tensor> read, ReadInOnePiece(bytes, key, *open()));
  if (read) return *std::move(read);
  Response response;
  if (!response.ParseFromZeroCopyStream(open().get()))
    return InvalidArgument("the answer for the tensor '{}' is no RecvTensorResponse", Shortened(key));
  if (response.is_dead())
    return Unimplemented(
        "the tensor '{}' is dead: it comes from a branch that was not taken, and the branch spans tasks", key);
  size_t repeated = kMostRepeatedBytes;
  return TensorFrom(response.tensor(), repeated);
}

}  // namespace rivulet
