// record/read: reading a TFRecord file of MNIST-sized examples with all checksums. record/crc: the checksum alone.
// record/example: decoding an image of 784 floats and a label from the file, as a client does without a cache.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "engine/base/file_system.h"
#include "engine/data/dataset.h"
#include "engine/data/example.h"
#include "engine/data/tfrecord.h"
#include "engine/io/crc32c.h"
#include "federated/plan/example_source.h"
#include "tests/bench/peak.h"

namespace rivulet::bench {
namespace {

constexpr size_t kRecordBytes = 828;  // an MNIST example
constexpr int64_t kRecords = 60000;
constexpr int64_t kStoredExamples = 10000;

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
    std::remove((path + "/bench.tfrecord.index").c_str());
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

Status WriteExamples(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Create(FileSystem::Default(), path));
  std::string image(784, '\0');
  for (int64_t i = 0; i < kStoredExamples; ++i) {
    for (size_t byte = 0; byte < image.size(); ++byte) image[byte] = static_cast<char>(i + static_cast<int64_t>(byte));
    RIVULET_RETURN_IF_ERROR(writer->Append(ExampleBuilder().Bytes("image", image).Int64("label", i % 10).Serialize()));
  }
  RIVULET_RETURN_IF_ERROR(writer->Finish());
  return writer->Publish();
}

// Batches of ten, from a file that lies in the page cache and in no cache of the processor's own.
Status DecodeAll(const DatasetExamples& examples, std::span<const TensorView> feeds) {
  std::array<uint32_t, 10> batch;
  for (uint32_t first = 0; first < kStoredExamples; first += static_cast<uint32_t>(batch.size())) {
    std::iota(batch.begin(), batch.end(), first);
    RIVULET_RETURN_IF_ERROR(examples.Decode(batch, feeds));
  }
  return absl::OkStatus();
}

void BenchExample(benchmark::State& state) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/bench.tfrecord";
  const FeatureSpec features[] = {
      {.feature = "image", .placeholder = "x", .shape = Shape({784}), .scale = 1.0 / 255},
      {.feature = "label", .placeholder = "y", .encoding = FeatureSpec::Encoding::kInt64, .upper_bound = 10}};
  Tensor images(DType::kFloat32, Shape({10, 784})), labels(DType::kInt64, Shape({10}));
  const TensorView feeds[] = {images.view(), labels.view()};
  const Status status = [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(WriteExamples(path));
    RIVULET_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open({path}));
    RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(features));
    const DatasetExamples examples(dataset, std::nullopt, decoder);
    for (auto _ : state) RIVULET_RETURN_IF_ERROR(DecodeAll(examples, feeds));
    return absl::OkStatus();
  }();
  if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  if (labels.flat<int64_t>()[9] != (kStoredExamples - 1) % 10) return state.SkipWithError("a wrong label");
  state.SetItemsProcessed(state.iterations() * kStoredExamples);
  state.counters["ns_per_example"] = benchmark::Counter(static_cast<double>(state.iterations() * kStoredExamples) / 1e9,
                                                        benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(BenchExample)->Name("record/example")->Unit(benchmark::kMillisecond);
BENCHMARK(BenchRead)->Name("record/read")->Unit(benchmark::kMillisecond);
BENCHMARK(BenchCrc)->Name("record/crc");

}  // namespace
}  // namespace rivulet::bench
