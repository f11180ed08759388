// Helpers shared by this folder's tests: a temporary folder, and hand-made record files.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "engine/data/tfrecord.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {

class DataTest : public testing::FolderTest {
 protected:
  DataTest() { setenv("XDG_CACHE_HOME", Path("cache").c_str(), 1); }
};

inline std::string Frames(const std::vector<std::string>& records) {
  std::string out;
  for (const std::string& record : records) AppendRecordFrame(record, out);
  return out;
}

// Packs `bytes`; `window` is that of zlib's deflateInit2: 31 for GZIP, 15 for ZLIB.
inline std::string Pack(const std::string& bytes, int window) {
  z_stream zlib = {};
  deflateInit2(&zlib, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&zlib, bytes.size()) + 64, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  deflate(&zlib, Z_FINISH);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

// Returns all records of a file, or the error.
inline StatusOr<std::vector<std::string>> ReadRecords(const std::string& path, uint64_t bound = 0) {
  RIVULET_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path, bound));
  std::vector<std::string> records;
  std::string data;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader->Next(data));
    if (!more) return records;
    records.push_back(data);
  }
}

inline std::string TestData() {
  const char* const folder = getenv("RIVULET_TEST_DATA");
  return folder == nullptr ? "" : folder;
}

}  // namespace rivulet
