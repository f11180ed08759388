#include "engine/io/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct NpyType {
  DType dtype;
  std::string_view code;  // without the byte order
};
constexpr std::array<NpyType, 13> kTypes = {{{DType::kFloat32, "f4"},
                                             {DType::kFloat64, "f8"},
                                             {DType::kFloat16, "f2"},
                                             {DType::kInt8, "i1"},
                                             {DType::kInt16, "i2"},
                                             {DType::kInt32, "i4"},
                                             {DType::kInt64, "i8"},
                                             {DType::kUint8, "u1"},
                                             {DType::kUint16, "u2"},
                                             {DType::kUint32, "u4"},
                                             {DType::kUint64, "u8"},
                                             {DType::kBool, "b1"},
                                             {DType::kBool, "?"}}};

// A cursor over the header's literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}
  void Space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  bool Skip(std::string_view token) {
    Space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool Quoted(std::string& value) {
    Space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return false;
    value = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool Size(int64_t& value) {
    Space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    Skip("L");  // Python 2 wrote long integers so
    return true;
  }
  bool Done() {
    Space();
    return rest_.empty();
  }

 private:
  std::string_view rest_;
};

Status Malformed(std::string_view what) { return DataLoss("the header of the .npy array {}", what); }

bool ReadShape(LiteralReader& in, std::vector<int64_t>& dims) {
  if (!in.Skip("(")) return false;
  while (!in.Skip(")")) {
    int64_t size = 0;
    if (dims.size() >= 64 || !in.Size(size)) return false;
    dims.push_back(size);
    if (!in.Skip(",")) return in.Skip(")");
  }
  return true;
}

Status ReadType(const std::string& descr, NpyHeader& header) {
  const std::string_view code = descr.empty() ? std::string_view() : std::string_view(descr).substr(1);
  const auto found = std::ranges::find(kTypes, code, &NpyType::code);
  if (descr.empty() || std::string_view("<>|=").find(descr[0]) == std::string_view::npos || found == kTypes.end()) {
    std::string shown;
    for (const char c : std::string_view(descr).substr(0, 40)) shown += c >= 0x20 && c < 0x7f ? c : '?';
    return Unimplemented("the .npy array has the dtype '{}', which has no counterpart here; convert it to float32",
                         shown);
  }
  header.dtype = found->dtype;
  header.big_endian = descr[0] == '>' && SizeOf(found->dtype) > 1;
  return absl::OkStatus();
}

Status ReadLiteral(std::string_view text, NpyHeader& header) {
  LiteralReader in(text);
  bool descr = false, order = false, shape = false;
  if (!in.Skip("{")) return Malformed("is no dictionary");
  while (!in.Skip("}")) {
    std::string key;
    if (!in.Quoted(key) || !in.Skip(":")) return Malformed("is no dictionary of names");
    if (key == "descr" && !descr) {
      std::string type;
      if (in.Skip("[")) return Unimplemented("the .npy array has records; write each field as a separate array");
      if (!in.Quoted(type)) return Malformed("has a 'descr' that is no text");
      RIVULET_RETURN_IF_ERROR(ReadType(type, header));
      descr = true;
    } else if (key == "fortran_order" && !order) {
      header.fortran_order = in.Skip("True");
      if (!header.fortran_order && !in.Skip("False")) return Malformed("has a 'fortran_order' that is no bool");
      order = true;
    } else if (key == "shape" && !shape) {
      std::vector<int64_t> dims;
      if (!ReadShape(in, dims)) return Malformed("has a 'shape' that is no tuple of sizes");
      header.shape = Shape(std::move(dims));
      shape = true;
    } else {
      return Malformed("must have descr, fortran_order and shape, each once, and nothing else");
    }
    if (!in.Skip(",") && !in.Skip("}")) return Malformed("is no dictionary");
    if (descr && order && shape && in.Done()) break;  // the closing brace was read just now
  }
  if (!in.Done()) return Malformed("has more bytes after its dictionary");
  if (!descr || !order || !shape) return Malformed("lacks one of descr, fortran_order and shape");
  return absl::OkStatus();
}

// Column-major to row-major.
void Transpose(const Shape& shape, size_t size, const std::byte* from, std::byte* to) {
  const size_t rank = static_cast<size_t>(shape.rank());
  std::vector<int64_t> stride(rank, 1), index(rank, 0);
  for (size_t axis = 1; axis < rank; ++axis) stride[axis] = stride[axis - 1] * shape.dims()[axis - 1];
  int64_t at = 0;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    std::memcpy(to + static_cast<size_t>(i) * size, from + static_cast<size_t>(at) * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      at += stride[axis];
      if (++index[axis] < shape.dims()[axis]) break;
      at -= stride[axis] * shape.dims()[axis];
      index[axis] = 0;
    }
  }
}

void SwapBytes(std::byte* data, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * size, data + (i + 1) * size);
}

}  // namespace

StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return DataLoss("not a .npy array: it does not begin with \\x93NUMPY");
  if (bytes.size() < 10) return DataLoss("the .npy array ends within its first 10 bytes");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) return Unimplemented("the .npy array is of version {}; 1, 2 and 3 are read", version);
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return DataLoss("the .npy array ends within its first 12 bytes");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{static_cast<unsigned char>(bytes[8 + i])} << (8 * i);
  NpyHeader header;
  header.data_offset = 8 + length_bytes + length;
  if (header.data_offset > bytes.size())
    return DataLoss("the .npy array's header has {} bytes, but the file ends after {}", length,
                    bytes.size() - 8 - length_bytes);
  RIVULET_RETURN_IF_ERROR(ReadLiteral(bytes.substr(8 + length_bytes, length), header));
  const StatusOr<int64_t> elements = header.shape.CheckedElements();
  if (!elements.ok())
    return Malformed(fmt::format("has the shape {}: {}", header.shape.ToString(), Message(elements.status())));
  return header;
}

StatusOr<Tensor> DecodeNpy(std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(bytes));
  const size_t size = SizeOf(header.dtype), wanted = static_cast<size_t>(header.shape.elements()) * size;
  const std::string_view data = bytes.substr(header.data_offset);
  if (data.size() != wanted)
    return DataLoss("the .npy array has {} bytes of data, but {}{} needs {}", data.size(), Name(header.dtype),
                    header.shape.ToString(), wanted);
  Tensor tensor(header.dtype, header.shape);
  if (wanted == 0) return tensor;
  const auto* from = reinterpret_cast<const std::byte*>(data.data());
  if (header.fortran_order && header.shape.rank() > 1) {
    Transpose(header.shape, size, from, tensor.data());
  } else {
    std::memcpy(tensor.data(), from, wanted);
  }
  if (header.big_endian) SwapBytes(tensor.data(), wanted / size, size);
  if (header.dtype == DType::kBool)  // any other byte would be no bool
    std::transform(tensor.data(), tensor.data() + wanted, tensor.data(),
                   [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return tensor;
}

StatusOr<std::string> NpyPreamble(DType dtype, const Shape& shape) {
  const auto found = std::ranges::find(kTypes, dtype, &NpyType::dtype);
  if (found == kTypes.end())
    return InvalidArgument("NumPy has no dtype for {}; cast the tensor to float32", Name(dtype));
  if (!shape.IsFullyKnown()) return InvalidArgument("an array of shape {} has no size", shape.ToString());
  std::string dims;
  for (const int64_t size : shape.dims()) dims += fmt::format("{}, ", size);
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  if (shape.rank() == 1) dims.resize(dims.size() - 1);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 SizeOf(dtype) == 1 ? '|' : '<', found->code, dims);
  const bool large = text.size() + 64 > 65535;
  const size_t before = large ? 12 : 10;
  text.append((64 - (text.size() + 1 + before) % 64) % 64, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += large ? '\2' : '\1';
  bytes += '\0';
  for (size_t i = 0; i < before - 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i));
  return bytes + text;
}

StatusOr<std::string> EncodeNpy(const TensorView& tensor) {
  if (tensor.dtype == DType::kBFloat16) {
    Tensor wide(DType::kFloat32, tensor.shape);
    const auto narrow = tensor.flat<bfloat16>();
    std::transform(narrow.begin(), narrow.end(), wide.flat<float>().begin(),
                   [](bfloat16 value) { return static_cast<float>(value); });
    return EncodeNpy(wide.view());
  }
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, NpyPreamble(tensor.dtype, tensor.shape));
  if (tensor.bytes() > 0) bytes.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes());
  return bytes;
}

Status WriteNpy(FileSystem& fs, const std::string& path, const TensorView& tensor) {
  const StatusOr<std::string> bytes = EncodeNpy(tensor);
  if (!bytes.ok()) return Annotate(bytes.status(), path);
  return WriteFileAtomically(fs, path, *bytes);
}

StatusOr<Tensor> ReadNpy(FileSystem& fs, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadAll(path));
  StatusOr<Tensor> tensor = DecodeNpy(bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

}  // namespace rivulet
