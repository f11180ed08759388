#include "engine/datasets/cifar_records.h"

#include <vector>

#include "engine/data/example.h"
#include "engine/datasets/source_file.h"

namespace rivulet {
namespace {

constexpr size_t kPlane = 32 * 32, kChannels = 3;

Status AppendRecords(SourceFile& source, std::span<const CifarLabel> labels, const DataProgress& progress,
                     RecordWriter& writer) {
  std::vector<std::byte> record(labels.size() + kPlane * kChannels);
  std::string pixels(kPlane * kChannels, '\0');
  for (int64_t number = 0;; ++number) {
    RIVULET_ASSIGN_OR_RETURN(const size_t bytes, source.Read(record));
    const auto where = [&] { return fmt::format("{}: record {}", source.path(), number); };
    if (bytes == 0) return number > 0 ? absl::OkStatus() : DataLoss("{}: it has no records", source.path());
    if (progress && number % 64 == 0) RIVULET_RETURN_IF_ERROR(progress(source.position(), source.file_bytes()));
    if (bytes < record.size())
      return DataLoss("{} is cut off: {} of its {} bytes are there", where(), bytes, record.size());
    ExampleBuilder example;
    for (size_t i = 0; i < labels.size(); ++i) {
      const int label = static_cast<uint8_t>(record[i]);
      if (label > labels[i].most)
        return DataLoss("{} has the {} {}; CIFAR-{}'s are 0 to {}", where(), labels[i].feature, label,
                        labels.back().most + 1, labels[i].most);
      example.Int64(labels[i].feature, label);
    }
    for (size_t channel = 0; channel < kChannels; ++channel)
      for (size_t pixel = 0; pixel < kPlane; ++pixel)
        pixels[pixel * kChannels + channel] = static_cast<char>(record[labels.size() + channel * kPlane + pixel]);
    RIVULET_RETURN_IF_ERROR(writer.Append(example.Bytes("image", pixels).Serialize()));
  }
}

}  // namespace

Status AppendCifarRecords(const std::string& path, std::span<const CifarLabel> labels, const DataProgress& progress,
                          RecordWriter& writer) {
  // A label and a pixel may look like ZLIB; the name tells GZIP.
  RIVULET_ASSIGN_OR_RETURN(const auto source, SourceFile::Open(path, SourceFile::Packing::kByName));
  return AppendRecords(*source, labels, progress, writer);
}

}  // namespace rivulet
