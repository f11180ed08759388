#include "engine/datasets/cifar10.h"

#include <algorithm>
#include <vector>

#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/io/byte_stream.h"
#include "engine/io/new_folder.h"

namespace rivulet {
namespace {

constexpr size_t kPlane = 32 * 32, kChannels = 3, kRecord = 1 + kPlane * kChannels;

StatusOr<std::vector<std::string>> FindFiles(FileSystem& fs, const std::string& folder, std::string_view set) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names, [&](const std::string& name) {
    return !name.starts_with(set) || !(name.ends_with(".bin") || name.ends_with(".bin.gz"));
  });
  std::sort(names.begin(), names.end());
  if (names.empty()) return NotFound("{}: no {}*.bin or {}*.bin.gz in this folder", folder, set, set);
  return names;
}

// `total`: bytes of the file.
Status ImportRecords(ByteStream& stream, int64_t total, const DataProgress& progress, RecordWriter& writer) {
  std::vector<std::byte> record(kRecord);
  std::string pixels(kPlane * kChannels, '\0');
  for (int64_t number = 0;; ++number) {
    RIVULET_ASSIGN_OR_RETURN(const size_t bytes, stream.Read(record));
    if (bytes == 0) return number > 0 ? absl::OkStatus() : DataLoss("it has no records");
    if (progress && number % 64 == 0) {
      const auto done = static_cast<int64_t>(stream.FilePosition());
      RIVULET_RETURN_IF_ERROR(progress(done, total));
    }
    if (bytes < kRecord) return DataLoss("record {} is cut off: {} of its {} bytes are there", number, bytes, kRecord);
    const int label = static_cast<uint8_t>(record[0]);
    if (label > 9) return DataLoss("record {} has the label {}; CIFAR-10's are 0 to 9", number, label);
    for (size_t channel = 0; channel < kChannels; ++channel)
      for (size_t pixel = 0; pixel < kPlane; ++pixel)
        pixels[pixel * kChannels + channel] = static_cast<char>(record[1 + channel * kPlane + pixel]);
    RIVULET_RETURN_IF_ERROR(writer.Append(ExampleBuilder().Bytes("image", pixels).Int64("label", label).Serialize()));
  }
}

Status ImportFile(const std::string& path, const DataProgress& progress, RecordWriter& writer) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  std::byte head[4] = {};
  const auto head_bytes = static_cast<size_t>(std::min<uint64_t>((*file)->size(), sizeof(head)));
  if (!(*file)->Copy(0, std::span(head).first(head_bytes))) return Annotate(ReadFault(**file), path);
  // A label and a pixel may look like ZLIB; the name tells GZIP.
  const auto packed = path.ends_with(".gz") ? DetectCompression(std::span(head).first(head_bytes)) : Compression::kNone;
  const auto stream = NewByteStream(**file, packed, DefaultUnpackedBound((*file)->size()));
  return Annotate(ImportRecords(*stream, static_cast<int64_t>((*file)->size()), progress, writer), path);
}

}  // namespace

StatusOr<Cifar10Counts> ImportCifar10(FileSystem& fs, const std::string& from, const std::string& out,
                                      const DataProgress& progress) {
  // Before anything is made: a missing file is the likeliest mistake.
  RIVULET_ASSIGN_OR_RETURN(const auto train_files, FindFiles(fs, from, "data_batch"));
  RIVULET_ASSIGN_OR_RETURN(const auto test_files, FindFiles(fs, from, "test_batch"));
  RIVULET_ASSIGN_OR_RETURN(const auto folder, NewFolder::Create(fs, out));  // outlives the writers in it
  RIVULET_ASSIGN_OR_RETURN(const auto train, RecordWriter::Create(fs, JoinPath(out, "train.tfrecord")));
  RIVULET_ASSIGN_OR_RETURN(const auto test, RecordWriter::Create(fs, JoinPath(out, "test.tfrecord")));
  for (const std::string& name : train_files)
    RIVULET_RETURN_IF_ERROR(ImportFile(JoinPath(from, name), progress, *train));
  for (const std::string& name : test_files) RIVULET_RETURN_IF_ERROR(ImportFile(JoinPath(from, name), progress, *test));
  RIVULET_RETURN_IF_ERROR(train->Finish());
  RIVULET_RETURN_IF_ERROR(test->Finish());
  RIVULET_RETURN_IF_ERROR(test->Publish());
  RIVULET_RETURN_IF_ERROR(train->Publish());
  folder->Keep();
  return Cifar10Counts{train->records(), test->records()};
}

}  // namespace rivulet
