#include "engine/data/dataset.h"

#include <algorithm>
#include <cstring>

#include "engine/data/record_index.h"
#include "engine/data/tfrecord.h"

namespace rivulet {
namespace {

// One file: mapped, or decompressed into memory with its frames. A compressed
// file has no random access, so it is decompressed once. It keeps its frames,
// and every record's checksum is verified when it is read, in both cases.
struct RecordFile {
  std::string path;
  std::unique_ptr<MappedFile> mapped;  // for a plain file
  std::string unpacked;                // for a compressed file
  std::vector<uint64_t> offsets;       // of frames, in the mapped file or in `unpacked`
  uint64_t stream_bytes = 0;

  uint64_t FrameEnd(size_t record) const { return record + 1 < offsets.size() ? offsets[record + 1] : stream_bytes; }
};

StatusOr<RecordFile> OpenPlain(const std::string& path, std::unique_ptr<MappedFile> mapped) {
  RecordFile file;
  file.path = path;
  RIVULET_ASSIGN_OR_RETURN(file.offsets, LoadOrBuildIndex(*mapped, FileSystem::Default(), DefaultCacheFolder()));
  file.stream_bytes = mapped->size();
  file.mapped = std::move(mapped);
  return file;
}

StatusOr<RecordFile> OpenPacked(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(path));
  RecordFile file;
  file.path = path;
  std::string data;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader->Next(data));
    if (!more) break;
    file.offsets.push_back(reader->offset());
    AppendRecordFrame(data, file.unpacked);
  }
  file.stream_bytes = file.unpacked.size();
  return file;
}

class RecordDataset : public Dataset {
 public:
  explicit RecordDataset(std::vector<RecordFile> files) : files_(std::move(files)) {
    for (const RecordFile& file : files_) {
      starts_.push_back(size_);
      size_ += static_cast<int64_t>(file.offsets.size());
    }
  }

  int64_t size() const override { return size_; }

  Status Read(int64_t index, std::string& buffer) const override {
    if (index < 0 || index >= size_) return OutOfRange("record {} of a data set of {} records", index, size_);
    const auto [file, record] = Locate(index);
    const Status status = ReadRecord(*file, record, buffer);
    if (status.ok()) return status;
    // Within its last page, a file that shrank reads as zeros, which looks like damage.
    const bool shrank = file->mapped != nullptr && file->mapped->CurrentSize() < file->mapped->size();
    return Annotate(shrank ? ReadFault(*file->mapped) : status, Where(index));
  }

  std::string Where(int64_t index) const override {
    if (index < 0 || index >= size_) return fmt::format("record {} of {}", index, size_);
    const auto [file, record] = Locate(index);
    return RecordPlace(file->path, static_cast<int64_t>(record), file->offsets[record]);
  }

 private:
  struct Place {
    const RecordFile* file;
    size_t record;
  };
  Place Locate(int64_t index) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    const auto file = static_cast<size_t>(after - starts_.begin()) - 1;
    return {&files_[file], static_cast<size_t>(index - starts_[file])};
  }

  // The checksum is verified at each reading: the file may change while it is open, and a mapped page is read from disk
  // again after memory pressure.
  static Status ReadRecord(const RecordFile& file, size_t record, std::string& buffer) {
    const uint64_t offset = file.offsets[record];
    const uint64_t frame = file.FrameEnd(record) - offset;
    buffer.resize(frame - kRecordFrameBytes);
    std::byte header[kRecordHeaderBytes], footer[kRecordFooterBytes];
    if (file.mapped != nullptr) {
      const auto data = std::as_writable_bytes(std::span(buffer.data(), buffer.size()));
      if (!file.mapped->Copy(offset, header, data, footer)) return ReadFault(*file.mapped);
    } else {
      const char* const from = file.unpacked.data() + offset;
      std::memcpy(header, from, sizeof(header));
      std::memcpy(buffer.data(), from + sizeof(header), buffer.size());
      std::memcpy(footer, from + sizeof(header) + buffer.size(), sizeof(footer));
    }
    RIVULET_ASSIGN_OR_RETURN(const uint64_t length, DecodeRecordHeader(header));
    if (length != buffer.size()) {
      return DataLoss("the record has {} bytes of data where the index has {}: the file changed since it was opened",
                      length, buffer.size());
    }
    return CheckRecordData(buffer, footer);
  }

  std::vector<RecordFile> files_;
  std::vector<int64_t> starts_;  // index of each file's first record
  int64_t size_ = 0;
};

}  // namespace

StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const std::vector<std::string>& paths) {
  std::vector<RecordFile> files;
  for (const std::string& path : paths) {
    RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, OpenRecordFile(path));
    RIVULET_ASSIGN_OR_RETURN(const Compression compression, DetectRecordCompression(*mapped));
    auto file = compression == Compression::kNone ? OpenPlain(path, std::move(mapped)) : OpenPacked(path);
    RIVULET_RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  return std::make_shared<const RecordDataset>(std::move(files));
}

}  // namespace rivulet
