#include "federated/weights/model.h"

#include <cstring>
#include <numeric>

#include "engine/base/large_pages.h"
#include "engine/io/safetensors.h"
#include "federated/weights/following_digest.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

std::shared_ptr<const ModelLayout> LayoutOf(std::vector<VariableSpec> variables) {
  auto layout = ModelLayout::Create(variables);
  EXPECT_OK(layout);
  return std::make_shared<const ModelLayout>(std::move(layout).value());
}

std::vector<VariableSpec> SomeVariables() {
  return {{"step", {DType::kInt64, {}}, Segment::kFrozen},
          {"w", {DType::kFloat32, {2, 3}}, Segment::kTrainable},
          {"mine", {DType::kFloat32, {5}}, Segment::kLocal},
          {"mean", {DType::kFloat32, {3}}, Segment::kShared}};
}

Model SomeModel() {
  Model model(LayoutOf(SomeVariables()));
  float next = 1;
  for (const Slice& slice : model.layout().slices()) {
    if (slice.spec.dtype == DType::kInt64) {
      model.tensor(slice).flat<int64_t>()[0] = 77;
    } else {
      for (float& value : model.tensor(slice).flat<float>()) value = next++;
    }
  }
  return model;
}

TEST(Model, StartsWithZeros) {
  const Model model(LayoutOf(SomeVariables()));
  for (const std::byte byte : model.arena()) EXPECT_EQ(byte, std::byte{0});
}

// In memory that another model has just left.
TEST(Model, ToBeOverwritten_HasZerosBetweenItsTensors) {
  const auto layout = LayoutOf(SomeVariables());
  {
    Model before(layout);
    std::ranges::fill(before.arena(), std::byte{0xFF});
  }
  Model model(layout, Model::First::kOverwritten);
  for (const Slice& slice : layout->slices()) {
    const TensorView tensor = model.tensor(slice);
    std::fill_n(static_cast<std::byte*>(tensor.data), tensor.bytes(), std::byte{1});
  }
  size_t ones = 0;
  for (const std::byte byte : model.arena()) {
    EXPECT_LE(byte, std::byte{1});
    ones += static_cast<size_t>(byte);
  }
  EXPECT_LT(ones, model.arena().size());
}

TEST(ModelDigest, IsWhatTheSpecificationSays) {
  Model model(LayoutOf({{"w", {DType::kFloat32, {2}}, Segment::kTrainable}}));
  auto values = model.tensor(model.layout().slices()[0]).flat<float>();
  values[0] = 1.0f;
  values[1] = -2.0f;
  // Name, dtype, rank, dim, data: all little-endian, no padding.
  const std::string hashed(
      "\x01\0\0\0w\x03"
      "F32\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\xc0",
      29);
  EXPECT_EQ(model.ComputeDigest(), Sha256Of(hashed));
}

TEST(ModelDigest, SeesEveryBitButThoseOfLocalTensorsAndPadding) {
  const Model model = SomeModel();
  const Digest digest = model.ComputeDigest();
  for (const Slice& slice : model.layout().slices()) {
    Model changed = SomeModel();
    std::byte& byte = changed.arena()[slice.offset];
    byte ^= std::byte{1};
    EXPECT_EQ(changed.ComputeDigest() == digest, slice.segment == Segment::kLocal) << slice.name;
  }
  Model padded = SomeModel();
  padded.arena()[60] = std::byte{1};  // behind the 24 bytes of "w"
  EXPECT_EQ(padded.ComputeDigest(), digest);
}

// Memory of somebody else's, with something in it: padding becomes zeros when it is asked for.
TEST(Model, InGivenMemory_IsTheModelThatIsWrittenThere) {
  const VariableSpec variables[] = {{"a", {DType::kFloat32, Shape{3}}, Segment::kTrainable},
                                    {"b", {DType::kFloat32, Shape{1}}, Segment::kTrainable}};
  const auto layout = std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
  const auto memory = std::make_shared<std::vector<std::byte, LargePages<std::byte>>>(256, std::byte{9});
  Model model(layout, {memory, memory->data()}), own(layout);
  EXPECT_EQ(model.arena().data(), memory->data());
  for (Model* each : {&model, &own}) {
    for (const Slice& slice : layout->slices()) std::ranges::fill(each->tensor(slice).flat<float>(), 2.0F);
  }
  model.ClearPadding();
  EXPECT_TRUE(std::ranges::equal(model.arena(), own.arena()));
  EXPECT_EQ(model.ComputeDigest(), own.ComputeDigest());
  EXPECT_EQ((*memory)[layout->arena_bytes()], std::byte{9}) << "beyond the arena nothing is written";
}

// Property: no byte is hashed before it is said to be made, whatever the order of declaration.
TEST(FollowingDigest, ModelThatIsStillMade_HasItsDigest) {
  const auto layout = LayoutOf({{"mean", {DType::kFloat32, {300'000}}, Segment::kShared},
                                {"mine", {DType::kFloat32, {5}}, Segment::kLocal},
                                {"w", {DType::kFloat32, {200'000}}, Segment::kTrainable}});
  for (int run = 0; run < 5; ++run) {
    Model model(layout);
    FollowingDigest digest(model);
    for (const Slice& slice : layout->slices()) {
      const auto values = model.tensor(slice).flat<float>();
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i + 1);
        if (i % 10'000 == 9'999) digest.Made(slice.offset + (i + 1) * sizeof(float));
      }
    }
    EXPECT_EQ(digest.Finish(), model.ComputeDigest());
  }
}

TEST(FollowingDigest, ModelThatIsNotFinished_IsGivenUp) {
  const Model model(LayoutOf({{"w", {DType::kFloat32, {1'000'000}}, Segment::kTrainable}}));
  FollowingDigest digest(model);
  digest.Made(400'000);
}

TEST(Safetensors, ReadsBackAllButLocalTensors) {
  const Model model = SomeModel();
  const std::string bytes = ModelToSafetensors(model, {{"rivulet.round", "3"}});
  const auto content = ParseSafetensors(bytes);
  ASSERT_OK(content);
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : content->tensors) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step", "w", "mean"}));  // declaration order
  EXPECT_EQ(content->metadata.at("rivulet.round"), "3");
  EXPECT_EQ(content->metadata.at("rivulet.model_digest"), model.ComputeDigest().Hex());
  EXPECT_EQ(content->metadata.at("rivulet.segments"), R"({"mean":"shared","step":"frozen","w":"trainable"})");

  {
    Model before(model.shared_layout());  // whose memory the next one gets
    std::ranges::fill(before.arena(), std::byte{0xFF});
  }
  Digest told;
  const auto again = ModelFromSafetensors(model.shared_layout(), bytes, &told);
  ASSERT_OK(again);
  EXPECT_EQ((*again)->ComputeDigest(), model.ComputeDigest());
  EXPECT_EQ(told, model.ComputeDigest());
  for (const float value : (*again)->tensor(*model.layout().Find("mine")).flat<float>()) EXPECT_EQ(value, 0.0f);
  EXPECT_EQ(ModelToSafetensors(**again, {{"rivulet.round", "3"}}), bytes);
}

TEST(ModelFileTest, PiecesAreTheFileFromEveryOffset) {
  const auto model = std::make_shared<const Model>(SomeModel());
  const ModelFile file(model, model->ComputeDigest(), {{"rivulet.round", "3"}});
  const std::string bytes = ModelToSafetensors(*model, {{"rivulet.round", "3"}});
  ASSERT_EQ(file.bytes(), static_cast<int64_t>(bytes.size()));
  std::string whole;
  for (const auto piece : file.pieces()) {
    EXPECT_FALSE(piece.empty());
    whole.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  EXPECT_EQ(whole, bytes);
  for (int64_t offset = 0; offset < file.bytes(); ++offset) {
    const auto piece = file.At(offset);
    ASSERT_FALSE(piece.empty());
    ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(piece.data()), piece.size()),
              std::string_view(bytes).substr(static_cast<size_t>(offset), piece.size()));
  }
  EXPECT_TRUE(file.At(file.bytes()).empty());
  EXPECT_EQ(file.pieces().back().data() + file.pieces().back().size(),
            model->tensor(*model->layout().Find("mean")).data + model->tensor(*model->layout().Find("mean")).bytes())
      << "the model's own memory";
}

TEST(Safetensors, AChangedBit_IsDataLoss) {
  const Model model = SomeModel();
  std::string bytes = ModelToSafetensors(model, {});
  bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 1);
  const auto damaged = ModelFromSafetensors(model.shared_layout(), bytes);
  EXPECT_THAT(damaged, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the model file states the digest")));
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_THAT(ModelFromSafetensors(model.shared_layout(), bytes.substr(0, length)),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST(Safetensors, OtherTensors_AreRefusedByName) {
  const std::string bytes = ModelToSafetensors(SomeModel(), {});
  const auto error = [&](auto change) {
    std::vector<VariableSpec> variables = SomeVariables();
    change(variables);
    const auto model = ModelFromSafetensors(LayoutOf(variables), bytes);
    EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(Message(model.status()));
  };
  EXPECT_EQ(error([](auto& v) {
              v[1].spec.shape = Shape{3, 2};
            }),
            "tensor 'w' of the model file is float32[2,3]; the model's is float32[3,2]");
  EXPECT_EQ(error([](auto& v) { v[0].spec.dtype = DType::kInt32; }),
            "tensor 'step' of the model file is int64[]; the model's is int32[]");
  EXPECT_EQ(error([](auto& v) { v[3].name = "average"; }), "the model file has no tensor 'average' (float32[3])");
  EXPECT_EQ(error([](auto& v) { v.pop_back(); }),
            "tensor 'mean' of the model file belongs to no variable that the model shares");
}

TEST(Safetensors, WithoutAStatedDigest_IsRead) {
  Model model(LayoutOf({{"w", {DType::kFloat32, {2}}, Segment::kTrainable}}));
  const std::vector<float> values = {3, 4};
  const std::vector<SafetensorsEntry> entries = {{"w", DType::kFloat32, Shape{2}, std::as_bytes(std::span(values))}};
  const auto bytes = SerializeSafetensors(entries, {});
  ASSERT_OK(bytes);
  const auto again = ModelFromSafetensors(model.shared_layout(), *bytes);
  ASSERT_OK(again);
  EXPECT_EQ((*again)->tensor(model.layout().slices()[0]).flat<float>()[1], 4.0f);
}

}  // namespace
}  // namespace rivulet
