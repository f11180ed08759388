// What versions and updates are made of: the bytes of every codec, a model as it is sent, a version's file with the
// server's numbers, and what a client keeps from task to task.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "engine/io/crc32c.h"
#include "federated/codecs/codec.h"
#include "federated/download/download.h"
#include "federated/numbers/server_numbers.h"
#include "federated/server_state/server_state.h"
#include "federated/settings/setting_tables.h"
#include "federated/states/state_blob.h"
#include "federated/weights/model.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr int64_t kElements = 300;

std::vector<float> SomeValues() {
  std::vector<float> values;
  for (int i = 0; i < kElements; ++i) values.push_back(static_cast<float>(i % 7 - 3) / 4);
  return values;
}

// In byte order of their names; made once, as whoever folds does.
const std::vector<std::unique_ptr<const Codec>>& Codecs() {
  static const auto* const codecs = [] {
    auto* const made = new std::vector<std::unique_ptr<const Codec>>;
    for (const std::string& name : SettingTableNames("codec")) made->push_back(*Codec::Create(name, kElements));
    return made;
  }();
  return *codecs;
}

// Values that travel with their places are those that Decode gives, and no others.
void CheckSparse(const SparseRun& sparse, const std::vector<float>& decoded) {
  std::vector<float> values(kElements, 0.0f);
  int64_t before = -1;
  for (int64_t i = 0; i < sparse.count; ++i) {
    if (sparse.index(i) <= before || sparse.index(i) >= kElements) std::abort();
    before = sparse.index(i);
    values[static_cast<size_t>(before)] = sparse.value(i);
  }
  if (std::memcmp(values.data(), decoded.data(), kElements * sizeof(float)) != 0) std::abort();
}

// The first byte says which codec. What is checked decodes to the same values in one piece and in several.
const Registered codec{{"codec",
                        [](std::string_view bytes) {
                          if (bytes.empty()) return false;
                          const Codec& codec = *Codecs()[static_cast<unsigned char>(bytes[0]) % Codecs().size()];
                          const auto data = std::as_bytes(std::span(bytes.data() + 1, bytes.size() - 1));
                          if (!codec.Check(data).ok()) return false;
                          std::vector<float> whole(kElements), pieces(kElements);
                          codec.Decode(data, 0, whole);
                          for (const auto& [first, count] : {std::pair{0, 1}, {1, 63}, {64, 200}, {264, 36}}) {
                            codec.Decode(data, first, std::span(pieces).subspan(first, count));
                          }
                          if (std::memcmp(whole.data(), pieces.data(), kElements * sizeof(float)) != 0) std::abort();
                          if (const auto sparse = codec.Sparse(data)) CheckSparse(*sparse, whole);
                          return true;
                        },
                        [] {
                          const std::vector<float> values = SomeValues();
                          const FloatRun run = {values.data(), nullptr, kElements};
                          std::vector<std::string> seeds;
                          for (const auto& codec : Codecs()) {
                            Draws draws(StreamKey(), 0);
                            std::string seed(1, static_cast<char>(seeds.size()));
                            codec->Encode({&run, 1}, draws, seed);
                            seeds.push_back(std::move(seed));
                          }
                          return seeds;
                        }}};

std::shared_ptr<const ModelLayout> SomeLayout() {
  static const auto layout = std::make_shared<const ModelLayout>(
      *ModelLayout::Create(std::vector<VariableSpec>{{"mean", {DType::kFloat32, {5}}, Segment::kShared},
                                                     {"v", {DType::kFloat32, {30}}, Segment::kTrainable},
                                                     {"table", {DType::kInt64, {3}}, Segment::kFrozen},
                                                     {"w", {DType::kFloat32, {1, 11}}, Segment::kTrainable}}));
  return layout;
}

// The first byte says by which of them a model travels.
constexpr std::array<const char*, 6> kDownloads = {"f16", "bf16", "int8", "int4", "qsgd4", "elias7"};

std::unique_ptr<const Download> DownloadBy(unsigned char number) {
  return *Download::Create(kDownloads[number % kDownloads.size()], SomeLayout());
}

const Registered download{{"download",
                           [](std::string_view bytes) {
                             if (bytes.empty()) return false;
                             const auto by = DownloadBy(static_cast<unsigned char>(bytes[0]));
                             return by->Decode(bytes.substr(1)).ok();
                           },
                           [] {
                             std::vector<std::string> seeds;
                             for (unsigned char number = 0; number < kDownloads.size(); ++number) {
                               const auto sent = DownloadBy(number)->Send(Model(SomeLayout()), 1, 1);
                               seeds.push_back(static_cast<char>(number) + sent->bytes);
                             }
                             return seeds;
                           }}};

ServerNumbers SomeNumbers() { return {{{"mu", 0.1}}, {{"ward 7", {{"weight", 1.0 / 3}, {"loss", 2}}}, {"b", {}}}}; }

std::string SomeVersion() {
  const auto model = std::make_shared<const Model>(SomeLayout());
  ServerFlats flats;
  AlignedBuffer moments(41 * sizeof(float));
  std::ranges::fill(moments.bytes(), std::byte{0});
  flats.emplace("server/m", std::move(moments));
  const ModelFile file(model, model->ComputeDigest(), {{kServerNumbersKey, TextOf(SomeNumbers())}},
                       std::make_shared<const ServerFlats>(std::move(flats)));
  std::string bytes;
  for (const auto piece : file.pieces()) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

const Registered version{{"version", [](std::string_view bytes) { return ReadServerState(SomeLayout(), bytes).ok(); },
                          [] { return std::vector{SomeVersion()}; }}};

// The checksum in front is made right, so that what is behind it is tried.
const Registered numbers{{"server_numbers",
                          [](std::string_view bytes) {
                            const std::string text = fmt::format("{:08x}", Crc32c(bytes)) + std::string(bytes);
                            const auto read = ParseServerNumbers(text);
                            if (!read.ok()) return false;
                            const auto again = ParseServerNumbers(TextOf(*read));
                            if (!again.ok() || TextOf(*again) != TextOf(*read)) std::abort();
                            return true;
                          },
                          [] { return std::vector{TextOf(SomeNumbers()).substr(8)}; }}};

// The same of what a client keeps, whose checksum stands at the end.
const Registered state{{"client_state",
                        [](std::string_view input) {
                          std::string blob(input);
                          const uint32_t crc = Crc32c(blob);
                          blob.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
                          std::vector<float> first(4), second(2);
                          const NamedState states[] = {{"previous", first}, {"left", second}};
                          return ReadState(blob, states).ok();
                        },
                        [] {
                          std::vector<float> first(4, 0.5f), second(2);
                          const NamedState states[] = {{"previous", first}, {"left", second}};
                          const std::string blob = WriteState(states);
                          return std::vector{blob.substr(0, blob.size() - sizeof(uint32_t))};
                        }}};

}  // namespace
}  // namespace rivulet::fuzz
