// TFRecord files, byte for byte as TensorFlow writes them. A record is
//   length of the data (u64) ‖ masked CRC-32C of the length (u32) ‖ data ‖ masked CRC-32C of the data (u32),
//   little-endian.
// The whole file may be compressed with GZIP or ZLIB; the reader detects this by the first bytes.
//
// Every error reads "FILE: record N at byte B: REASON". N counts from 0, and B is the start of the record in the
// (unpacked) stream. A missing file reads "FILE: no such file". DATA_LOSS: damage; INVALID_ARGUMENT: not a regular
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/io/byte_stream.h"
#include "engine/io/mapped_file.h"

namespace rivulet {

inline constexpr size_t kRecordHeaderBytes = 12;
inline constexpr size_t kRecordFooterBytes = 4;
inline constexpr size_t kRecordFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

// "FILE: record N at byte B"
std::string RecordPlace(std::string_view path, int64_t record, uint64_t offset);

// Functions shared by readers; their messages do not contain the place yet. Returns the length in a frame's header.
// DATA_LOSS: its checksum is wrong.
StatusOr<uint64_t> DecodeRecordHeader(const std::byte (&header)[kRecordHeaderBytes]);
// DATA_LOSS unless data of `length` bytes and their checksum fit in the `remaining` bytes of the file.
Status CheckRecordFits(uint64_t length, uint64_t remaining);
Status CheckRecordData(std::string_view data, const std::byte (&footer)[kRecordFooterBytes]);
void AppendRecordFrame(std::string_view data, std::string& out);

// MappedFile::Open with this file's messages.
StatusOr<std::unique_ptr<MappedFile>> OpenRecordFile(const std::string& path);
// kNone if the first bytes are a valid frame header.
StatusOr<Compression> DetectRecordCompression(const MappedFile& file);

// Reads a file from start to end, verifying every checksum. Not thread-safe.
class RecordReader {
 public:
  // `unpacked_bound` 0: DefaultUnpackedBound.
  static StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path, uint64_t unpacked_bound = 0);
  // Reads the next record's data; returns false at the end. After an error the reader is at its end.
  StatusOr<bool> Next(std::string& data);

  int64_t record() const { return record_; }              // of the last Next; -1 before
  uint64_t offset() const { return offset_; }             // start of that record
  uint64_t stream_bytes() const { return next_offset_; }  // bytes read so far, including frames
  bool cut_off() const { return cut_off_; }               // the last Next failed because the file ends within a record
  uint64_t file_position() const { return stream_->FilePosition(); }
  uint64_t file_bytes() const { return file_->size(); }
  Compression compression() const { return compression_; }
  std::string Where() const { return RecordPlace(file_->path(), record_, offset_); }

 private:
  RecordReader(std::unique_ptr<MappedFile> file, Compression compression, uint64_t bound);
  Status ReadRecord(std::string& data, bool& end);

  std::unique_ptr<MappedFile> file_;
  Compression compression_;
  std::unique_ptr<ByteStream> stream_;
  int64_t record_ = -1;
  uint64_t offset_ = 0, next_offset_ = 0;
  bool done_ = false, cut_off_ = false;
};

// Writes a plain file: under a temporary name beside `path`, renamed by Publish; without Publish no file remains. Not
// thread-safe. Errors are the file system's.
class RecordWriter {
 public:
  static StatusOr<std::unique_ptr<RecordWriter>> Create(FileSystem& fs, const std::string& path);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  Status Append(std::string_view data);
  // Finish writes the rest, syncs and closes the file; Publish renames it and syncs the folder. They are separate, so
  // that a set of files can be complete before the first appears; `sync_folder` false if a later Publish syncs it.
  Status Finish();
  Status Publish(bool sync_folder = true);
  int64_t records() const { return records_; }

 private:
  RecordWriter(FileSystem& fs, std::string path, std::string temporary, std::unique_ptr<WritableFile> file);
  Status Flush();

  FileSystem& fs_;
  std::string path_, temporary_;
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  int64_t records_ = 0;
};

}  // namespace rivulet
