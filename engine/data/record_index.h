// Index of the offsets of all records in a plain TFRecord file. It is the sidecar FILE.index, or a file of the cache
// folder if FILE's folder is not writable; the layout is in docs/internals/formats.md. An index is used only while the
// file has the size, time and sampled content recorded in it. Every entry is checked again when a record is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/io/mapped_file.h"

namespace rivulet {

// What an index was made from.
struct IndexKey {
  uint64_t file_bytes = 0;
  int64_t modified_nanoseconds = 0;
  uint32_t sample_crc = 0;  // CRC-32C of the sampled content
  bool operator==(const IndexKey&) const = default;
};

// DATA_LOSS when the file shrank.
StatusOr<IndexKey> MakeIndexKey(const MappedFile& file);

std::string EncodeIndex(const IndexKey& key, const std::vector<uint64_t>& offsets);
// DATA_LOSS: damaged or not an index. FAILED_PRECONDITION: made from another content than `key`'s.
StatusOr<std::vector<uint64_t>> DecodeIndex(std::string_view bytes, const IndexKey& key);
bool IsIndex(std::string_view head);  // the first bytes of an index file

// Walks the frames of a plain file, checking the checksum of every length but not of the data. Errors as in tfrecord.h.
StatusOr<std::vector<uint64_t>> ScanRecords(const MappedFile& file);

// "$XDG_CACHE_HOME/rivulet", else "$HOME/.cache/rivulet", else "": no cache.
std::string DefaultCacheFolder();

// The index from the sidecar or the cache; otherwise scanned, and kept in the first of the two that can be written. A
// sidecar's name that holds anything but an index is left alone. Errors are ScanRecords's: without a place to keep it
// the index is simply made again next time.
StatusOr<std::vector<uint64_t>> LoadOrBuildIndex(const MappedFile& file, FileSystem& fs,
                                                 const std::string& cache_folder);

}  // namespace rivulet
