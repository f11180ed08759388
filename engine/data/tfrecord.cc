#include "engine/data/tfrecord.h"

#include <algorithm>
#include <cstring>

#include "engine/base/temporary_name.h"
#include "engine/base/write_target.h"
#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

uint64_t LoadLittleEndian(const std::byte* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

void AppendLittleEndian(uint64_t value, size_t count, std::string& out) {
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Describes bytes found in place of a record's header, and a tool that reads them; "" if unknown. Random bytes look
// like text about once in 300,000 times.
std::string_view WhatElse(std::string_view head) {
  const auto is = [&](std::string_view magic) { return head.starts_with(magic); };
  if (is("PK\x03\x04")) return "; it looks like a ZIP archive: rivulet data import numpy reads .npz";
  if (is("\x93NUMPY")) return "; it looks like an array of NumPy's: rivulet data import numpy reads it";
  if (is("\x89PNG") || is("\xff\xd8\xff"))
    return "; it looks like an image: rivulet data import images reads folders of them";
  if (is(std::string_view("\0\0\x08\1", 4)) || is(std::string_view("\0\0\x08\3", 4)))
    return "; it looks like an IDX file: rivulet data import mnist reads those of MNIST";
  for (const char c : head)
    if (static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') return "";
  if (is("{")) return "; it looks like JSON: rivulet data import leaf reads LEAF's";
  return "; it looks like text: import tables with rivulet data import csv, and prose with rivulet data import text";
}

std::span<std::byte> Writable(std::string& text, size_t offset, size_t bytes) {
  return std::as_writable_bytes(std::span(text.data() + offset, bytes));
}

}  // namespace

std::string RecordPlace(std::string_view path, int64_t record, uint64_t offset) {
  return fmt::format("{}: record {} at byte {}", path, record, offset);
}

StatusOr<uint64_t> DecodeRecordHeader(const std::byte (&header)[kRecordHeaderBytes]) {
  const auto stored = static_cast<uint32_t>(LoadLittleEndian(header + 8, 4));
  const uint32_t computed = MaskCrc(Crc32c(std::span(header).first(8)));
  if (stored == computed) return LoadLittleEndian(header, 8);
  return DataLoss(
      "the length's checksum is wrong (stored {:#010x}, computed {:#010x}): damaged, or not a TFRecord file{}", stored,
      computed, WhatElse({reinterpret_cast<const char*>(header), sizeof(header)}));
}

Status CheckRecordFits(uint64_t length, uint64_t remaining) {
  if (length <= remaining && remaining - length >= kRecordFooterBytes) return absl::OkStatus();
  return DataLoss(
      "the record says it has {} bytes of data, but the file ends {} bytes after its header: cut off or damaged",
      length, remaining);
}

Status CheckRecordData(std::string_view data, const std::byte (&footer)[kRecordFooterBytes]) {
  const auto stored = static_cast<uint32_t>(LoadLittleEndian(footer, kRecordFooterBytes));
  const uint32_t computed = MaskCrc(Crc32c(data));
  if (stored == computed) return absl::OkStatus();
  return DataLoss("the data's checksum is wrong (stored {:#010x}, computed {:#010x}): the record is damaged", stored,
                  computed);
}

void AppendRecordFrame(std::string_view data, std::string& out) {
  const size_t begin = out.size();
  AppendLittleEndian(data.size(), 8, out);
  AppendLittleEndian(MaskCrc(Crc32c(std::string_view(out).substr(begin))), 4, out);
  out += data;
  AppendLittleEndian(MaskCrc(Crc32c(data)), 4, out);
}

StatusOr<std::unique_ptr<MappedFile>> OpenRecordFile(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (file.ok()) return file;
  const bool reached = file.status().code() == absl::StatusCode::kInvalidArgument;
  return Annotate(file.status(), reached ? RecordPlace(path, 0, 0) : path);
}

// First checks the checksum of the first length: a plain file
// may start with any length, even one that looks like GZIP.
StatusOr<Compression> DetectRecordCompression(const MappedFile& file) {
  std::byte head[kRecordHeaderBytes] = {};
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(file.size(), sizeof(head)));
  if (!file.Copy(0, std::span(head).first(bytes))) return Annotate(ReadFault(file), RecordPlace(file.path(), 0, 0));
  if (bytes == sizeof(head) && LoadLittleEndian(head + 8, 4) == MaskCrc(Crc32c(std::span(head).first(8))))
    return Compression::kNone;
  return DetectCompression(std::span(head).first(bytes));
}

RecordReader::RecordReader(std::unique_ptr<MappedFile> file, Compression compression, uint64_t bound)
    : file_(std::move(file)), compression_(compression), stream_(NewByteStream(*file_, compression, bound)) {}

StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path, uint64_t unpacked_bound) {
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, OpenRecordFile(path));
  RIVULET_ASSIGN_OR_RETURN(const Compression compression, DetectRecordCompression(*file));
  if (unpacked_bound == 0) unpacked_bound = DefaultUnpackedBound(file->size());
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(file), compression, unpacked_bound));
}

// After an error nothing more is read: after a damaged frame, the start of the next is unknown.
StatusOr<bool> RecordReader::Next(std::string& data) {
  if (done_) return false;
  offset_ = next_offset_;
  ++record_;
  bool end = false;
  const Status status = ReadRecord(data, end);
  if (!status.ok()) {
    done_ = true;
    // Within its last page, a file that shrank reads as zeros, which looks like damage.
    const bool shrank = file_->CurrentSize() < file_->size();
    return Annotate(shrank ? ReadFault(*file_) : status, Where());
  }
  if (end) {
    done_ = true;
    --record_;
  }
  return !end;
}

Status RecordReader::ReadRecord(std::string& data, bool& end) {
  std::byte header[kRecordHeaderBytes];
  RIVULET_ASSIGN_OR_RETURN(const size_t header_bytes, stream_->Read(header));
  if (header_bytes == 0) {
    end = true;
    return absl::OkStatus();
  }
  cut_off_ = header_bytes < sizeof(header);
  if (cut_off_) return DataLoss("cut off: {} of the header's {} bytes are there", header_bytes, sizeof(header));
  RIVULET_ASSIGN_OR_RETURN(const uint64_t length, DecodeRecordHeader(header));
  const uint64_t remaining = stream_->Remaining();
  if (compression_ == Compression::kNone) {
    const Status fits = CheckRecordFits(length, remaining);
    cut_off_ = !fits.ok();
    RIVULET_RETURN_IF_ERROR(fits);
  } else if (length > remaining) {
    return DataLoss(
        "the record says it has {} bytes of data, more than the {} that a {} file of {} bytes may still unpack to; "
        "if it is meant to, unpack it first",
        length, remaining, Name(compression_), file_->size());
  }

  // The length is not trusted: memory grows with the bytes that were really read, by at most a factor of two.
  size_t filled = 0;
  if (data.size() > length) data.resize(length);
  while (filled < length) {
    constexpr uint64_t kFirstStep = uint64_t{4} << 20;
    if (data.size() == filled) data.resize(std::min<uint64_t>(length, std::max<uint64_t>(2 * filled, kFirstStep)));
    const size_t wanted = data.size() - filled;
    RIVULET_ASSIGN_OR_RETURN(const size_t got, stream_->Read(Writable(data, filled, wanted)));
    filled += got;
    if (got < wanted) {
      cut_off_ = true;
      return DataLoss("cut off: the record says it has {} bytes of data, but the data end after {} of them", length,
                      filled);
    }
  }
  std::byte footer[kRecordFooterBytes];
  RIVULET_ASSIGN_OR_RETURN(const size_t footer_bytes, stream_->Read(footer));
  cut_off_ = footer_bytes < sizeof(footer);
  if (cut_off_) return DataLoss("cut off in the checksum that follows the record's {} bytes", length);
  RIVULET_RETURN_IF_ERROR(CheckRecordData(data, footer));
  next_offset_ += kRecordFrameBytes + length;
  return absl::OkStatus();
}

RecordWriter::RecordWriter(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file)
    : fs_(fs), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(FileSystem& fs, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(WriteTarget target, WriteTargetOf(path));
  std::string temporary = target.in_place ? "" : TemporaryNameOf(target.path);
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(target.in_place ? target.path : temporary));
  return std::unique_ptr<RecordWriter>(
      new RecordWriter(fs, std::move(target.path), std::move(temporary), std::move(file)));
}

RecordWriter::~RecordWriter() {
  file_.reset();
  if (!temporary_.empty()) (void)fs_.Remove(temporary_);  // the caller already has the first error
}

Status RecordWriter::Append(std::string_view data) {
  AppendRecordFrame(data, buffer_);
  ++records_;
  return buffer_.size() >= (size_t{1} << 20) ? Flush() : absl::OkStatus();
}

Status RecordWriter::Flush() {
  const Status status = file_->Append(buffer_);
  buffer_.clear();
  return status;
}

// Finish and Publish are separate, so that many files can be completed first and then appear together.
Status RecordWriter::Finish() {
  RIVULET_RETURN_IF_ERROR(Flush());
  buffer_ = std::string();  // many finished writers may wait for their Publish
  RIVULET_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

Status RecordWriter::Publish(bool sync_folder) {
  if (temporary_.empty()) return absl::OkStatus();  // written to something other than a regular file
  RIVULET_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  temporary_.clear();
  return sync_folder ? fs_.SyncFolder(FolderOf(path_)) : absl::OkStatus();
}

}  // namespace rivulet
