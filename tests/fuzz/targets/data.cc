// Records, examples and the files that data sets come in.
#include <cstdlib>

#include "engine/data/example.h"
#include "engine/data/inspect.h"
#include "engine/data/tfrecord.h"
#include "engine/datasets/mnist.h"
#include "engine/datasets/shakespeare.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

std::string SomeExample() {
  return ExampleBuilder()
      .Bytes("image", std::string(12, '\x7f'))
      .Int64("label", 3)
      .Int64s("tokens", std::vector<int64_t>{1, -2, 300})
      .Floats("values", std::vector<float>{0.5f, -1e30f})
      .Serialize();
}

// Looks at all that a reader of an example looks at.
bool ReadExample(std::string_view bytes) {
  const auto features = ParseExample(bytes);
  ClassifyPayload(bytes);
  if (!features.ok()) return false;
  for (const auto& [name, feature] : *features) {
    const auto count = static_cast<size_t>(feature.count());
    if (feature.kind() == FeatureKind::kBytes) {
      size_t seen = 0;
      feature.ForEachBytes([&](std::string_view value) { seen += 1 + value.size() * 0; });
      if (seen != count) std::abort();
    } else if (feature.kind() == FeatureKind::kFloat) {
      std::vector<float> values(count);
      feature.CopyFloats(values);
    } else if (feature.kind() == FeatureKind::kInt64) {
      std::vector<int64_t> values(count);
      feature.CopyInt64s(values);
    }
  }
  return true;
}

bool ReadRecords(std::string_view bytes) {
  const std::string path = FileOf(bytes);
  const auto verified = VerifyRecords(path);
  const auto summary = InspectRecords(path);
  if (summary.ok()) ToJson(*summary);
  return verified.ok();
}

const Registered example{{"example", ReadExample,
                          [] {
                            return std::vector{SomeExample(), std::string()};
                          },
                          MessageFrom(0)}};

const Registered records{{"records", ReadRecords, [] {
                            std::string file;
                            AppendRecordFrame(SomeExample(), file);
                            AppendRecordFrame("no example", file);
                            return std::vector{file, std::string()};
                          }}};

// A checksum stops nearly every change of a file, so that the readers behind it would never be tried. Here the bytes
// are records' contents, each with its length before it, and get their checksums afterwards.
const Registered sealed{
    {"records_sealed",
     [](std::string_view bytes) {
       std::string file;
       while (!bytes.empty()) {
         const size_t size = std::min<size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
         AppendRecordFrame(bytes.substr(1, size), file);
         bytes.remove_prefix(1 + size);
       }
       return ReadRecords(file);
     },
     [] {
       const std::string one = SomeExample();
       return std::vector{static_cast<char>(one.size()) + one + static_cast<char>(one.size()) + one};
     }}};

const Registered idx{{"idx",
                      [](std::string_view bytes) {
                        const std::string path = FileOf(bytes);
                        const bool images = ReadIdx(path, 3).ok(), labels = ReadIdx(path, 1).ok();
                        return images || labels;
                      },
                      [] {
                        return std::vector{std::string("\0\0\x08\x03\0\0\0\1\0\0\0\2\0\0\0\2abcd", 20),
                                           std::string("\0\0\x08\x01\0\0\0\3abc", 11)};
                      }}};

const Registered speeches{{"speeches",
                           [](std::string_view bytes) {
                             const auto read = ParseSpeeches(bytes);
                             if (!read.ok()) return false;
                             std::vector<std::string_view> texts;
                             for (const Speech& speech : *read) texts.push_back(speech.text);
                             WindowsOf(texts);
                             return true;
                           },
                           [] { return std::vector{std::string("A:\nTo be.\nOr not.\n\nB:\nWell\n\nmore of it\n")}; }}};

}  // namespace
}  // namespace rivulet::fuzz
