#include "engine/datasets/mnist.h"

#include <algorithm>

#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/io/byte_stream.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

constexpr uint32_t kUnsignedBytes = 0x08;
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;

uint32_t BigEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) value = value << 8 | static_cast<uint32_t>(byte);
  return value;
}

Status ReadContent(ByteStream& stream, size_t rank, IdxArray& array) {
  std::vector<std::byte> header(4 + 4 * rank);
  RIVULET_ASSIGN_OR_RETURN(const size_t header_bytes, stream.Read(header));
  const uint32_t wanted = kUnsignedBytes << 8 | static_cast<uint32_t>(rank);
  if (header_bytes >= 4) {
    const uint32_t magic = BigEndian(header);
    if (magic != wanted) {
      return DataLoss(
          "its magic number is {:#010x}, but an IDX file of unsigned bytes with {} dimension{} has {:#010x}", magic,
          rank, rank == 1 ? "" : "s", wanted);
    }
  }
  if (header_bytes < header.size())
    return DataLoss("cut off: {} of the IDX header's {} bytes are there", header_bytes, header.size());
  uint64_t bytes = 1;
  for (size_t i = 0; i < rank; ++i) {
    array.dims.push_back(BigEndian(std::span(header).subspan(4 + 4 * i)));
    if (array.dims.back() != 0 && bytes > kMaxBytes / array.dims.back())
      return DataLoss("its sizes multiply to more than {} bytes", kMaxBytes);
    bytes *= array.dims.back();
  }
  // The sizes are a claim: memory follows the bytes that really come.
  while (array.data.size() < bytes) {
    const size_t before = array.data.size();
    const auto step = static_cast<size_t>(std::min<uint64_t>(bytes - before, std::max<uint64_t>(before, 1 << 24)));
    array.data.resize(before + step);
    RIVULET_ASSIGN_OR_RETURN(const size_t got,
                             stream.Read(std::as_writable_bytes(std::span(array.data).subspan(before))));
    if (got < step)
      return DataLoss("cut off: its sizes ask for {} bytes of data, but {} are there", bytes, before + got);
  }
  std::byte extra[1];
  RIVULET_ASSIGN_OR_RETURN(const size_t more, stream.Read(extra));
  if (more != 0) return DataLoss("bytes follow the {} bytes of data that its sizes ask for", bytes);
  return absl::OkStatus();
}

// `what`: "images" or "labels".
StatusOr<std::string> FindFile(FileSystem& fs, const std::string& folder, const std::string& set,
                               const std::string& what) {
  const std::string type = what == "images" ? "idx3-ubyte" : "idx1-ubyte";
  for (const std::string separator : {"-", "."}) {
    for (const std::string ending : {"", ".gz"}) {
      std::string path = JoinPath(folder, set + "-" + what + separator + type + ending);
      if (fs.Exists(path)) return path;
    }
  }
  const std::string name = set + "-" + what + "-" + type;
  return NotFound("{}: no {} or {}.gz in this folder", folder, name, name);
}

Status ImportSet(FileSystem& fs, const std::string& from, const std::string& set, const DataProgress& progress,
                 RecordWriter& writer) {
  RIVULET_ASSIGN_OR_RETURN(const std::string image_path, FindFile(fs, from, set, "images"));
  RIVULET_ASSIGN_OR_RETURN(const std::string label_path, FindFile(fs, from, set, "labels"));
  RIVULET_ASSIGN_OR_RETURN(const IdxArray images, ReadIdx(image_path, 3));
  RIVULET_ASSIGN_OR_RETURN(const IdxArray labels, ReadIdx(label_path, 1));
  if (images.dims[1] != 28 || images.dims[2] != 28)
    return DataLoss("{}: images of {}×{} pixels; MNIST's have 28×28", image_path, images.dims[1], images.dims[2]);
  if (images.dims[0] != labels.dims[0])
    return DataLoss("{} has {} labels, but {} has {} images", label_path, labels.dims[0], image_path, images.dims[0]);
  if (labels.data.empty()) return DataLoss("{} has no images", image_path);
  constexpr size_t kPixels = 28 * 28;
  for (size_t i = 0; i < labels.data.size(); ++i) {
    if (progress && i % 64 == 0)
      RIVULET_RETURN_IF_ERROR(progress(static_cast<int64_t>(i), static_cast<int64_t>(labels.data.size())));
    const int label = static_cast<uint8_t>(labels.data[i]);
    if (label > 9) return DataLoss("{}: label {} is {}; digits are 0 to 9", label_path, i, label);
    const std::string_view pixels = std::string_view(images.data).substr(i * kPixels, kPixels);
    RIVULET_RETURN_IF_ERROR(writer.Append(ExampleBuilder().Bytes("image", pixels).Int64("label", label).Serialize()));
  }
  return writer.Finish();
}

}  // namespace

StatusOr<IdxArray> ReadIdx(const std::string& path, size_t rank) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  std::byte head[4] = {};
  const auto head_bytes = static_cast<size_t>(std::min<uint64_t>((*file)->size(), sizeof(head)));
  if (!(*file)->Copy(0, std::span(head).first(head_bytes))) return Annotate(ReadFault(**file), path);
  const auto packed = DetectCompression(std::span(head).first(head_bytes));
  // An IDX file begins with two zero bytes, which is neither GZIP nor ZLIB.
  const auto stream = NewByteStream(**file, packed, DefaultUnpackedBound((*file)->size()));
  IdxArray array;
  RIVULET_RETURN_IF_ERROR(Annotate(ReadContent(*stream, rank, array), path));
  return array;
}

StatusOr<MnistCounts> ImportMnist(FileSystem& fs, const std::string& from, const std::string& out,
                                  const DataProgress& progress) {
  // Before anything is made: a missing file is the likeliest mistake.
  for (const std::string set : {"train", "t10k"}) {
    for (const std::string what : {"images", "labels"}) RIVULET_RETURN_IF_ERROR(FindFile(fs, from, set, what).status());
  }
  RIVULET_ASSIGN_OR_RETURN(const auto folder, NewFolder::Create(fs, out));  // outlives the writers in it
  RIVULET_ASSIGN_OR_RETURN(const auto train, RecordWriter::Create(fs, JoinPath(out, "train.tfrecord")));
  RIVULET_ASSIGN_OR_RETURN(const auto test, RecordWriter::Create(fs, JoinPath(out, "test.tfrecord")));
  RIVULET_RETURN_IF_ERROR(ImportSet(fs, from, "train", progress, *train));
  RIVULET_RETURN_IF_ERROR(ImportSet(fs, from, "t10k", progress, *test));
  RIVULET_RETURN_IF_ERROR(test->Publish());
  RIVULET_RETURN_IF_ERROR(train->Publish());
  folder->Keep();
  return MnistCounts{train->records(), test->records()};
}

}  // namespace rivulet
