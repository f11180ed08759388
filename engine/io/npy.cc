#include "engine/io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the data, as NumPy writes it
constexpr size_t kLongestHeader = 64 * 1024;

struct NumpyType {
  DType dtype;
  std::string_view descr;
};
constexpr NumpyType kTypes[] = {
    {DType::kFloat32, "<f4"}, {DType::kFloat64, "<f8"}, {DType::kFloat16, "<f2"}, {DType::kInt8, "|i1"},
    {DType::kInt16, "<i2"},   {DType::kInt32, "<i4"},   {DType::kInt64, "<i8"},   {DType::kUint8, "|u1"},
    {DType::kUint16, "<u2"},  {DType::kUint32, "<u4"},  {DType::kUint64, "<u8"},  {DType::kBool, "|b1"},
};

std::string_view DescrOf(DType dtype) {
  for (const NumpyType& type : kTypes)
    if (type.dtype == dtype) return type.descr;
  return "";
}

// The three entries of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Status Read() {
    if (!Take('{')) return Malformed();
    while (!Take('}')) {
      RIVULET_ASSIGN_OR_RETURN(const std::string_view key, Quoted());
      if (!Take(':')) return Malformed();
      if (key == "descr") {
        if (Peek() == '[') return Unimplemented("the array has named fields; save one field at a time");
        RIVULET_ASSIGN_OR_RETURN(descr, Quoted());
      } else if (key == "fortran_order") {
        if (TakeWord("True")) {
          fortran_order = true;
        } else if (!TakeWord("False")) {
          return Malformed();
        }
      } else if (key == "shape") {
        RIVULET_RETURN_IF_ERROR(ReadShape());
      } else {
        return Malformed();
      }
      if (!Take(',') && Peek() != '}') return Malformed();
    }
    Skip();
    if (!text_.empty() || descr.empty() || !shape) return Malformed();
    return absl::OkStatus();
  }

  std::string_view descr;
  bool fortran_order = false;
  std::optional<Shape> shape;

 private:
  static Status Malformed() { return InvalidArgument("the header is not NumPy's"); }
  void Skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  char Peek() {
    Skip();
    return text_.empty() ? '\0' : text_[0];
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    Skip();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  StatusOr<std::string_view> Quoted() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return Malformed();
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) return Malformed();
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  Status ReadShape() {
    std::vector<int64_t> dims;
    if (!Take('(')) return Malformed();
    while (!Take(')')) {
      Skip();
      int64_t size = -1;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || dims.size() == 32) return Malformed();
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims.push_back(size);
      if (!Take(',') && Peek() != ')') return Malformed();
    }
    shape = Shape(std::move(dims));
    return absl::OkStatus();
  }

  std::string_view text_;
};

}  // namespace

StatusOr<std::string> EncodeNpy(const TensorView& tensor) {
  const bool widen = tensor.dtype == DType::kBFloat16;
  const std::string_view descr = DescrOf(widen ? DType::kFloat32 : tensor.dtype);
  if (descr.empty()) return Unimplemented("NumPy's files hold no {}", Name(tensor.dtype));
  std::string dims;
  for (const int64_t size : tensor.shape.dims()) dims += fmt::format("{}, ", size);
  if (dims.ends_with(' ')) dims.pop_back();
  if (tensor.shape.rank() > 1) dims.pop_back();  // "(3,)", but "(3, 4)"
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  const size_t before = kMagic.size() + 2 + 2;  // version and length
  header.append(kAlignment - 1 - (before + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (widen) {
    const auto* values = reinterpret_cast<const bfloat16*>(tensor.data);
    for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
      const float value = values[i];
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  } else if (tensor.bytes() > 0) {
    bytes.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes());
  }
  return bytes;
}

StatusOr<Tensor> DecodeNpy(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 4) return DataLoss("this is no .npy file");
  bytes.remove_prefix(kMagic.size());
  const int version = static_cast<unsigned char>(bytes[0]);
  if (version < 1 || version > 3) return Unimplemented("version {} of the .npy format is unknown here", version);
  const size_t width = version == 1 ? 2 : 4;
  if (bytes.size() < 2 + width) return DataLoss("the file ends inside of its header");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= size_t{static_cast<unsigned char>(bytes[2 + i])} << (8 * i);
  bytes.remove_prefix(2 + width);
  if (length > kLongestHeader) return InvalidArgument("the header is {} bytes long, beyond {}", length, kLongestHeader);
  if (length > bytes.size()) return DataLoss("the file ends inside of its header");
  HeaderReader header(bytes.substr(0, length));
  RIVULET_RETURN_IF_ERROR(header.Read());
  bytes.remove_prefix(length);

  DType dtype = DType::kInvalid;
  for (const NumpyType& type : kTypes) {
    // The byte order of single bytes does not matter.
    if (type.descr == header.descr || (type.descr[0] == '|' && type.descr.substr(1) == header.descr.substr(1)))
      dtype = type.dtype;
  }
  if (dtype == DType::kInvalid)
    return Unimplemented("the array's type is '{}'; little-endian numbers and bool can be read", header.descr);
  if (header.fortran_order && header.shape->rank() > 1)
    return Unimplemented("the array is in Fortran's order; save numpy.ascontiguousarray(array)");
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, header.shape->CheckedElements());
  const size_t wanted = static_cast<size_t>(elements) * SizeOf(dtype);
  if (bytes.size() != wanted)
    return DataLoss("the array {}{} has {} bytes, but {} follow the header", Name(dtype), header.shape->ToString(),
                    wanted, bytes.size());
  RIVULET_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, *header.shape));
  if (wanted > 0) std::memcpy(tensor.data(), bytes.data(), wanted);
  if (dtype == DType::kBool && std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0 && c != 1; }))
    return InvalidArgument("an array of bool has a byte that is neither 0 nor 1");
  return tensor;
}

Status WriteNpy(FileSystem& fs, const std::string& path, const TensorView& tensor) {
  StatusOr<std::string> bytes = EncodeNpy(tensor);
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
