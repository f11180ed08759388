#include "federated/weights/base.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/file_system.h"
#include "engine/io/safetensors.h"
#include "federated/weights/model.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class BaseTest : public ::testing::Test {
 protected:
  // One tensor of a file: little-endian float32.
  struct Given {
    std::string name;
    std::vector<float> values;
  };

  std::string FileOf(const std::vector<Given>& tensors, const std::map<std::string, std::string>& metadata = {}) {
    std::vector<SafetensorsEntry> entries;
    for (const Given& tensor : tensors) {
      entries.push_back(
          {tensor.name, DType::kFloat32, Shape{std::ssize(tensor.values)}, std::as_bytes(std::span(tensor.values))});
    }
    return *SerializeSafetensors(entries, metadata);
  }
  std::string Write(const std::string& name, std::string_view bytes) {
    const std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(FolderOf(path));
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, bytes));
    return path;
  }
  static std::string Travelling(const Base& base) {
    std::string bytes(static_cast<size_t>(base.travel_bytes()), '\1');
    EXPECT_OK(base.ReadTravelling(0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  testing::TempFolder folder_;
  const Given w_{"w", {1, 2, 3}}, b_{"b", std::vector<float>(32, 0.5F)}, z_{"z", {7}};
};

TEST_F(BaseTest, Digest_IsOfNamesShapesAndValues_NotOfFilesOrderAndMetadata) {
  const auto one = Base::Open(Write("one.safetensors", FileOf({w_, b_, z_}, {{"format", "pt"}})));
  const auto other = Base::Open(Write("other.safetensors", FileOf({z_, w_, b_})));
  Write("shards/model-1.safetensors", FileOf({b_}));
  Write("shards/model-2.safetensors", FileOf({z_, w_}));
  const std::string index = Write(
      "shards/model.safetensors.index.json",
      R"({"metadata": {"total_size": 144}, "weight_map": {"w": "model-2.safetensors", "b": "model-1.safetensors", "z": "model-2.safetensors"}})");
  const auto shards = Base::Open(folder_.path() + "/shards");
  const auto by_index = Base::Open(index);
  ASSERT_OK(one.status());
  ASSERT_OK(other.status());
  ASSERT_OK(shards.status());
  ASSERT_OK(by_index.status());
  EXPECT_EQ((*one)->digest(), (*other)->digest());
  EXPECT_EQ((*one)->digest(), (*shards)->digest());
  EXPECT_EQ((*one)->digest(), (*by_index)->digest());
  EXPECT_EQ(Travelling(**one), Travelling(**shards));

  Given changed = w_;
  changed.values[1] = 2.0000002F;
  const auto another = Base::Open(Write("changed.safetensors", FileOf({changed, b_, z_})));
  ASSERT_OK(another.status());
  EXPECT_NE((*another)->digest(), (*one)->digest());
  EXPECT_THAT(ErrorOf(CheckIsBase(**another, (*one)->digest())), HasSubstr((*one)->digest().Hex()));
  EXPECT_OK(CheckIsBase(**other, (*one)->digest()));
}

// By hand: SHA-256 of the label and of what model_digest takes of a tensor.
TEST_F(BaseTest, Digest_IsTheFormulaOfTheFormats) {
  const auto base = Base::Open(Write("z.safetensors", FileOf({z_})));
  ASSERT_OK(base.status());
  std::string taken = "rivulet base\n";
  taken += std::string("\1\0\0\0z\3F32\1\0\0\0\1\0\0\0\0\0\0\0", 21);
  taken += std::string("\0\0\xe0\x40", 4);
  EXPECT_EQ((*base)->digest(), Sha256Of(taken));
}

TEST_F(BaseTest, TravellingFile_IsAlignedAndIsTheSameBase) {
  const auto base = Base::Open(Write("one.safetensors", FileOf({w_, b_, z_})));
  ASSERT_OK(base.status());
  const std::string bytes = Travelling(**base);
  const auto parsed = ParseSafetensors(bytes);
  ASSERT_OK(parsed.status());
  for (const Given& tensor : {w_, b_, z_}) {
    const SafetensorsEntry* entry = parsed->Find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ((reinterpret_cast<const char*>(entry->data.data()) - bytes.data()) % 64, 0) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(entry->data, std::as_bytes(std::span(tensor.values)))) << tensor.name;
  }
  const auto again = Base::Open(Write("again.safetensors", bytes));
  ASSERT_OK(again.status());
  EXPECT_EQ((*again)->digest(), (*base)->digest());
  EXPECT_EQ(Travelling(**again), bytes);
  // From any offset, and across the borders of what lies in different places.
  for (size_t offset = 0; offset < bytes.size(); offset += 7) {
    std::string part(std::min<size_t>(97, bytes.size() - offset), '\1');
    ASSERT_OK((*base)->ReadTravelling(static_cast<int64_t>(offset), std::as_writable_bytes(std::span(part))));
    ASSERT_EQ(part, bytes.substr(offset, part.size())) << offset;
  }
}

TEST_F(BaseTest, Find_GivesTensorsByName) {
  const auto base = Base::Open(Write("one.safetensors", FileOf({w_, b_, z_})));
  ASSERT_OK(base.status());
  const Base::Tensor* w = (*base)->Find("w");
  ASSERT_NE(w, nullptr);
  std::vector<float> values(3);
  EXPECT_OK((*base)->Copy(*w, std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, w_.values);
  EXPECT_EQ((*base)->Find("v"), nullptr);
}

TEST_F(BaseTest, Open_DamagedInput_IsRefusedByName) {
  const std::string whole = FileOf({w_, b_});
  for (size_t length = 0; length < whole.size(); length += 5) {
    EXPECT_THAT(ErrorOf(Base::Open(Write("short.safetensors", whole.substr(0, length)))),
                HasSubstr("short.safetensors"));
  }
  std::string huge = whole;
  huge[5] = '\x7f';  // a header of 139 TB
  EXPECT_THAT(ErrorOf(Base::Open(Write("huge.safetensors", huge))), HasSubstr("more than the limit"));
  EXPECT_THAT(ErrorOf(Base::Open(Write("empty.safetensors", FileOf({})))), HasSubstr("has no tensors"));
  EXPECT_THAT(ErrorOf(Base::Open(folder_.path() + "/nowhere.safetensors")), HasSubstr("nowhere.safetensors"));
  EXPECT_THAT(ErrorOf(Base::Open(folder_.path())), HasSubstr("neither model.safetensors.index.json"));
}

TEST_F(BaseTest, Open_IndexThatDoesNotFitItsFiles_IsRefusedByName) {
  Write("s/a.safetensors", FileOf({w_}));
  Write("s/b.safetensors", FileOf({w_, z_}));
  const auto refused = [&](std::string_view index) {
    Write("s/model.safetensors.index.json", index);
    return ErrorOf(Base::Open(folder_.path() + "/s"));
  };
  EXPECT_THAT(refused("{"), HasSubstr("index"));
  EXPECT_THAT(refused("[]"), HasSubstr("weight_map"));
  EXPECT_THAT(refused(R"({"weight_map": {}})"), HasSubstr("weight_map"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": 3}})"), HasSubstr("no file of its folder for tensor 'w'"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": "../s/a.safetensors"}})"), HasSubstr("no file of its folder"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": ".."}})"), HasSubstr("no file of its folder"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": "c.safetensors"}})"), HasSubstr("c.safetensors"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": "a.safetensors", "v": "a.safetensors"}})"),
              HasSubstr("tensor 'v' is not in the file"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": "b.safetensors"}})"), HasSubstr("tensor 'z' is not in the index"));
  EXPECT_THAT(refused(R"({"weight_map": {"w": "b.safetensors", "z": "b.safetensors"}})"), HasSubstr("no error"));
}

TEST_F(BaseTest, TruncatedWhileOpen_IsAnErrorAndNoSignal) {
  const std::string path = Write("one.safetensors", FileOf({{"w", std::vector<float>(100'000, 1.0F)}}));
  const auto base = Base::Open(path);
  ASSERT_OK(base.status());
  std::filesystem::resize_file(path, 4096);
  std::string bytes(static_cast<size_t>((*base)->travel_bytes()), '\0');
  EXPECT_THAT((*base)->ReadTravelling(0, std::as_writable_bytes(std::span(bytes))),
              StatusIs(absl::StatusCode::kDataLoss));
}

// A model on top of a base model: versions hold the other variables, and its digest has the base's.
TEST_F(BaseTest, ModelOverABase_HasADigestOfBothAndAFileOfTheRest) {
  const auto base = Base::Open(Write("one.safetensors", FileOf({b_})));
  ASSERT_OK(base.status());
  const Digest digest = (*base)->digest();
  const TensorSpec three{DType::kFloat32, Shape{3}}, many{DType::kFloat32, Shape{32}};
  const std::vector<VariableSpec> both = {{"b", many, Segment::kBase}, {"w", three, Segment::kTrainable}};
  const auto layout = ModelLayout::Create(both, digest);
  ASSERT_OK(layout.status());
  EXPECT_EQ(layout->slices().size(), 1u);
  EXPECT_EQ(layout->arena_bytes(), 64u);
  ASSERT_EQ(layout->base_variables().size(), 1u);
  EXPECT_EQ(layout->base_variables()[0].name, "b");
  EXPECT_EQ(std::vector<int>(layout->declaration_order().begin(), layout->declaration_order().end()),
            std::vector<int>{0});
  const std::vector<VariableSpec> rest = {both[1]};
  const auto alone = ModelLayout::Create(rest);
  ASSERT_OK(alone.status());

  const Model model(std::make_shared<const ModelLayout>(*layout)), plain(std::make_shared<const ModelLayout>(*alone));
  std::string taken = "rivulet model over a base\n";
  taken += digest.AsBytes();
  taken += std::string("\1\0\0\0w\3F32\1\0\0\0\3\0\0\0\0\0\0\0", 21) + std::string(12, '\0');
  EXPECT_EQ(model.ComputeDigest(), Sha256Of(taken));
  EXPECT_NE(model.ComputeDigest(), plain.ComputeDigest());
  EXPECT_NE(layout->digest(), alone->digest());

  const std::string file = ModelToSafetensors(model, {});
  const auto parsed = ParseSafetensors(file);
  ASSERT_OK(parsed.status());
  EXPECT_EQ(parsed->tensors.size(), 1u);
  EXPECT_EQ(StatedBase(parsed->metadata), digest.Hex());
  EXPECT_OK(ModelFromSafetensors(model.shared_layout(), file).status());
  EXPECT_THAT(ErrorOf(ModelFromSafetensors(plain.shared_layout(), file)), HasSubstr("name that base in model.base"));
  // An adapter that was made without the base, and states the digest of its own tensors.
  const std::string made_alone = ModelToSafetensors(plain, {});
  EXPECT_OK(ModelFromSafetensors(model.shared_layout(), made_alone).status());
  std::string damaged = made_alone;
  damaged.back() ^= 1;
  EXPECT_THAT(ErrorOf(ModelFromSafetensors(model.shared_layout(), damaged)), HasSubstr("it is damaged"));

  const auto elsewhere = ModelLayout::Create(both, Sha256Of("another"));
  EXPECT_THAT(ErrorOf(ModelFromSafetensors(std::make_shared<const ModelLayout>(*elsewhere), file)),
              HasSubstr("and the base here is"));

  EXPECT_THAT(ErrorOf(ModelLayout::Create(both)), HasSubstr("'b' is of a base, and the model names none"));
  EXPECT_THAT(ErrorOf(ModelLayout::Create(rest, digest)), HasSubstr("has no variable of it"));
}

}  // namespace
}  // namespace rivulet
