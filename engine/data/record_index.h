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

// The state of the data file for which an index was made.
struct IndexKey {
  uint64_t file_bytes = 0;
  int64_t modified_nanoseconds = 0;
  uint32_t sample_crc = 0;  // CRC-32C of the sampled content
  bool operator==(const IndexKey&) const = default;
};

// DATA_LOSS: the file shrank.
StatusOr<IndexKey> MakeIndexKey(const MappedFile& file);

std::string EncodeIndex(const IndexKey& key, const std::vector<uint64_t>& offsets);
// DATA_LOSS: damaged or not an index. FAILED_PRECONDITION: made for a different state than `key`.
StatusOr<std::vector<uint64_t>> DecodeIndex(std::string_view bytes, const IndexKey& key);
bool IsIndex(std::string_view head);  // tests the first bytes of a file

// Reads the frames of a plain file, verifying the checksums of lengths but not of data. Errors as in tfrecord.h.
StatusOr<std::vector<uint64_t>> ScanRecords(const MappedFile& file);

// "$XDG_CACHE_HOME/rivulet", else "$HOME/.cache/rivulet", else "": no cache.
std::string DefaultCacheFolder();

// The index from the sidecar or the cache; otherwise scans, and stores it in the first of the two that is writable. A
// foreign file with a sidecar's name is never overwritten. Errors as in ScanRecords: an index that cannot be stored is
// simply built again next time.
StatusOr<std::vector<uint64_t>> LoadOrBuildIndex(const MappedFile& file, FileSystem& fs,
                                                 const std::string& cache_folder);

}  // namespace rivulet
