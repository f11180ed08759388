#include "engine/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "engine/base/file_system.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string File(std::string_view header, std::string_view data = "") {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  return file + std::string(header) + std::string(data);
}

std::string Refusal(std::string_view header, std::string_view data = "") {
  const std::string file = File(header, data);
  const auto content = ParseSafetensors(file);
  if (content.ok()) return "accepted";
  return std::string(Message(content.status()));
}

SafetensorsEntry Floats(std::string name, Shape shape, std::span<const float> values) {
  return {std::move(name), DType::kFloat32, std::move(shape), std::as_bytes(values)};
}

TEST(Safetensors, WrittenFile_ReadsBackTheSame) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const int64_t steps = 7;
  const std::vector<SafetensorsEntry> tensors = {
      Floats("dense/kernel", {2, 3}, weights),
      {"steps", DType::kInt64, {}, std::as_bytes(std::span(&steps, 1))},
      Floats("empty", {0, 5}, {}),
  };
  const auto file = SerializeSafetensors(tensors, {{"round", "12"}, {"name", "fluß"}});
  ASSERT_OK(file);
  const auto content = ParseSafetensors(*file);
  ASSERT_OK(content);
  EXPECT_EQ(content->metadata.at("round"), "12");
  EXPECT_EQ(content->metadata.at("name"), "fluß");
  ASSERT_EQ(content->tensors.size(), 3u);
  const SafetensorsEntry* kernel = content->Find("dense/kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(kernel->data.data(), weights.data(), 24), 0);
  EXPECT_EQ(content->Find("steps")->shape, Shape{});
  EXPECT_EQ(content->Find("steps")->data.size(), 8u);
  EXPECT_EQ(content->Find("empty")->data.size(), 0u);
  EXPECT_EQ(content->Find("kernel"), nullptr);
}

TEST(Safetensors, Header_PlacesDataAtAMultipleOf64) {
  const std::vector<float> values = {1};
  for (const char* name : {"a", "ab", "abc", "a name of another length"}) {
    const auto header = SafetensorsHeader(std::vector{Floats(name, {1}, values)}, {});
    ASSERT_OK(header);
    EXPECT_EQ(header->size() % 64, 0u);
  }
}

TEST(Safetensors, FileOfAnotherWriter_HoldsTheStatedTensors) {
  const char* folder = std::getenv("RIVULET_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const auto small = FileSystem::Default().ReadAll(std::string(folder) + "/safetensors/multi_layer.safetensors");
  ASSERT_OK(small);
  const auto layers = ParseSafetensors(*small);
  ASSERT_OK(layers);
  ASSERT_NE(layers->Find("conv1.weight"), nullptr);
  EXPECT_THAT(layers->Find("conv1.weight")->shape.dims(), ElementsAre(4, 3, 3, 3));
  EXPECT_THAT(layers->Find("fc1.weight")->shape.dims(), ElementsAre(16, 256));
  EXPECT_EQ(layers->Find("norm1.num_batches_tracked")->dtype, DType::kInt64);
  EXPECT_EQ(layers->Find("norm1.num_batches_tracked")->shape.rank(), 0);

  const auto large = FileSystem::Default().ReadAll(std::string(folder) + "/safetensors/mnist.safetensors");
  ASSERT_OK(large);
  const auto network = ParseSafetensors(*large);
  ASSERT_OK(network);
  EXPECT_THAT(network->Find("fc1.weight")->shape.dims(), ElementsAre(32, 11616));
  EXPECT_EQ(network->Find("fc1.weight")->data.size(), 32u * 11616 * 4);
}

TEST(Safetensors, EveryTruncation_IsRefused) {
  const std::vector<float> values = {1, 2, 3};
  const auto file = SerializeSafetensors(std::vector{Floats("w", {3}, values)}, {{"k", "v"}});
  ASSERT_OK(file);
  for (size_t size = 0; size < file->size(); ++size) {
    const auto content = ParseSafetensors(std::string_view(*file).substr(0, size));
    EXPECT_THAT(content, StatusIs(absl::StatusCode::kDataLoss)) << size;
  }
}

TEST(Safetensors, RandomByteChanges_NeverCrash) {
  const std::vector<float> values(40, 1.5f);
  const auto file = SerializeSafetensors(
      std::vector{Floats("a", {4, 5}, std::span(values).first(20)), Floats("b", {20}, std::span(values).last(20))},
      {{"k", "v"}});
  ASSERT_OK(file);
  uint64_t state = 1;
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = *file;
    for (int change = 0; change < 3; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      damaged[(state >> 33) % (damaged.size() - 160)] = static_cast<char>(state >> 24);
    }
    const auto content = ParseSafetensors(damaged);
    if (!content.ok()) ++refused;
    if (content.ok()) {
      for (const auto& tensor : content->tensors) ASSERT_LE(tensor.data.size(), damaged.size());
    }
  }
  EXPECT_GT(refused, 2500);
}

TEST(Safetensors, HeaderLongerThanTheFile_IsRefused) {
  std::string file = File("{}");
  file[0] = 100;
  EXPECT_THAT(ParseSafetensors(file).status().ToString(),
              HasSubstr("has 100 bytes, but the file ends after 2 of them"));
}

TEST(Safetensors, HeaderBeyondTheLimit_IsRefusedBeforeAnyAllocation) {
  std::string file = File("{}");
  file[7] = '\x7f';
  EXPECT_THAT(ParseSafetensors(file).status().ToString(), HasSubstr("more than the limit of 100000000"));
}

TEST(Safetensors, HeaderThatIsNotJson_IsRefused) {
  EXPECT_THAT(Refusal("{\"a\":"), HasSubstr("is not JSON (near byte"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(Refusal("{\"a\":{\"shape\":[[1]]}}"), HasSubstr("nests deeper"));
  EXPECT_THAT(Refusal("{\"a\":" + std::string(100000, '[')), HasSubstr("header"));
  EXPECT_THAT(Refusal("{\"a\":1} {"), HasSubstr("is not JSON"));
}

TEST(Safetensors, NameTwice_IsRefused) {
  EXPECT_THAT(
      Refusal(
          R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          "ab"),
      HasSubstr("has 'w' twice"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("has 'dtype' twice"));
}

TEST(Safetensors, TensorDescribedWrongly_IsRefused) {
  EXPECT_THAT(Refusal(R"({"w":1})"), HasSubstr("tensor 'w' is not described by a JSON object"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1]}})"), HasSubstr("must have dtype, shape and data_offsets"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("dtype that is not a string"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("has dtype 'F33', which is not supported"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("dimension that is not an integer"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("dimension that is not an integer"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("tensor 'w' has the shape"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "abcd"),
              HasSubstr("two data_offsets"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"),
              HasSubstr("ends at byte 0 before it begins at 4"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("has 4 bytes of data, but float32 [2] need 8"));
  EXPECT_THAT(Refusal(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", "abcd"),
              HasSubstr("of 4 bytes of data"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":1}})"), HasSubstr("metadata 'a' is not a string"));
}

TEST(Safetensors, OverlapHoleOrRest_IsRefused) {
  EXPECT_THAT(
      Refusal(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          "abc"),
      HasSubstr("'a' and 'b' overlap at byte 1"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab"),
              HasSubstr("hole of 1 bytes before tensor 'a'"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "ab"),
              HasSubstr("1 bytes follow the last"));
}

TEST(Safetensors, WritingWhatCannotBeRead_IsRefused) {
  const std::vector<float> values = {1, 2};
  EXPECT_THAT(
      SerializeSafetensors(std::vector{Floats("w", {2}, values), Floats("w", {2}, values)}, {}).status().ToString(),
      HasSubstr("'w': the name is taken"));
  EXPECT_THAT(SerializeSafetensors(std::vector{Floats("__metadata__", {2}, values)}, {}).status().ToString(),
              HasSubstr("the name is taken"));
  EXPECT_THAT(SerializeSafetensors(std::vector{Floats("w", {3}, values)}, {}).status().ToString(),
              HasSubstr("8 bytes of data, but float32 [3] need 12"));
  EXPECT_THAT(SerializeSafetensors(std::vector{Floats("\xff", {2}, values)}, {}).status().ToString(),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(
      SerializeSafetensors(std::vector<SafetensorsEntry>{{"s", DType::kString, {}, {}}}, {}).status().ToString(),
      HasSubstr("the format has no dtype"));
}

}  // namespace
}  // namespace rivulet
