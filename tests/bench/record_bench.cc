// record/read: reading a TFRecord file of MNIST-sized examples with every checksum; record/crc: the checksum alone.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/base/file_system.h"
#include "engine/data/tfrecord.h"
#include "engine/io/crc32c.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

constexpr size_t kRecordBytes = 828;  // an MNIST example
constexpr int64_t kRecords = 60000;

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path = std::string(base == nullptr ? "/tmp" : base) + "/rivulet-bench-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~TemporaryFolder() {
    if (path.empty()) return;
    std::remove((path + "/bench.tfrecord").c_str());
    std::remove(path.c_str());
  }
};

Status WriteFile(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Create(FileSystem::Default(), path));
  std::string record(kRecordBytes, '\0');
  for (int64_t i = 0; i < kRecords; ++i) {
    for (size_t byte = 0; byte < record.size(); byte += 13)
      record[byte] = static_cast<char>(i * 31 + static_cast<int64_t>(byte));
    RIVULET_RETURN_IF_ERROR(writer->Append(record));
  }
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  return writer->Publish();
}

void BenchRead(benchmark::State& state) {
  const TemporaryFolder folder;
  if (folder.path.empty()) return state.SkipWithError("no temporary folder");
  const std::string path = folder.path + "/bench.tfrecord";
  if (const Status written = WriteFile(path); !written.ok()) {
    return state.SkipWithError(std::string(written.message()).c_str());
  }
  std::string record;
  uint64_t bytes = 0;
  for (auto _ : state) {
    auto reader = RecordReader::Open(path);
    if (!reader.ok()) return state.SkipWithError(std::string(reader.status().message()).c_str());
    int64_t records = 0;
    while (true) {
      const StatusOr<bool> next = (*reader)->Next(record);
      if (!next.ok()) return state.SkipWithError(std::string(next.status().message()).c_str());
      if (!*next) break;
      ++records;
    }
    if (records != kRecords) return state.SkipWithError("records are missing");
    bytes += (*reader)->stream_bytes();
  }
  state.SetItemsProcessed(state.iterations() * kRecords);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) / 1e9, benchmark::Counter::kIsRate);
  state.counters["memory_share"] =
      benchmark::Counter(static_cast<double>(bytes) / 1e9 / ReadGigabytes(), benchmark::Counter::kIsRate);
}

void BenchCrc(benchmark::State& state) {
  const std::string data(64 << 10, 'r');
  const uint32_t expected = internal::ExtendCrc32cPortable(0, std::as_bytes(std::span(data)));
  uint32_t crc = 0;
  for (auto _ : state) benchmark::DoNotOptimize(crc = Crc32c(data));
  if (crc != expected) return state.SkipWithError("a wrong checksum");
  const double bytes = static_cast<double>(state.iterations()) * static_cast<double>(data.size());
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

BENCHMARK(BenchRead)->Name("record/read")->Unit(benchmark::kMillisecond);
BENCHMARK(BenchCrc)->Name("record/crc");

}  // namespace
}  // namespace rivulet::bench
