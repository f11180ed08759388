#include "federated/weights/layout.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;

VariableSpec Variable(std::string name, Shape shape, Segment segment = Segment::kTrainable,
                      DType dtype = DType::kFloat32) {
  return {std::move(name), {dtype, std::move(shape)}, segment};
}

StatusOr<ModelLayout> Layout(std::vector<VariableSpec> variables) { return ModelLayout::Create(variables); }

TEST(ModelLayout, TwoTensors_StartAt64Bytes) {
  const auto layout = Layout({Variable("w", {5, 2}), Variable("b", {3})});
  ASSERT_OK(layout);
  ASSERT_EQ(layout->slices().size(), 2u);
  EXPECT_EQ(layout->slices()[0].offset, 0u);
  EXPECT_EQ(layout->slices()[1].offset, 64u);  // 40 bytes, padded
  EXPECT_EQ(layout->slices()[1].wire_offset, 10);
  EXPECT_EQ(layout->arena_bytes(), 128u);
  EXPECT_EQ(layout->parameters(), 13);
  EXPECT_EQ(layout->update_elements(), 13);
}

TEST(ModelLayout, Segments_LieInOrderWhateverTheDeclaration) {
  const auto layout =
      Layout({Variable("frozen", {4}, Segment::kFrozen, DType::kInt64), Variable("local", {2}, Segment::kLocal),
              Variable("mean", {3}, Segment::kShared), Variable("w", {20})});
  ASSERT_OK(layout);
  std::vector<std::string> names;
  for (const Slice& slice : layout->slices()) names.push_back(slice.name);
  EXPECT_EQ(names, (std::vector<std::string>{"w", "local", "mean", "frozen"}));
  EXPECT_EQ(std::vector<int>(layout->declaration_order().begin(), layout->declaration_order().end()),
            (std::vector<int>{3, 1, 2, 0}));
  EXPECT_EQ(layout->segment_offset(Segment::kLocal), 128u);  // 80 bytes, padded
  EXPECT_EQ(layout->trained_bytes(), 192u);
  EXPECT_EQ(layout->segment_offset(Segment::kShared), 192u);
  EXPECT_EQ(layout->segment_bytes(Segment::kShared), 64u);
  EXPECT_EQ(layout->segment_offset(Segment::kFrozen), 256u);
  EXPECT_EQ(layout->Find("mean")->wire_offset, 20);  // after the trainable elements of a delta
  EXPECT_EQ(layout->Find("local")->wire_offset, 0);
  EXPECT_EQ(layout->Find("frozen")->wire_offset, 0);
  EXPECT_EQ(layout->update_elements(), 23);
  EXPECT_EQ(layout->parameters(), 20);
  EXPECT_EQ(layout->Find("nothing"), nullptr);
}

TEST(ModelLayout, NamesInAnyScript_AreTaken) {
  for (const char* name : {"größe", "重み", "\xf0\x9f\x8c\x8a/kernel"})
    EXPECT_OK(Layout({Variable(name, {1})})) << name;
}

TEST(ModelLayout, Scalar_IsOneElement) {
  const auto layout = Layout({Variable("s", {})});
  ASSERT_OK(layout);
  EXPECT_EQ(layout->parameters(), 1);
  EXPECT_EQ(layout->arena_bytes(), 64u);
}

TEST(ModelLayout, Digest_IsOfNamesDtypesAndShapes) {
  // "w", "F32", rank 2, dims 2 and 3, written out by hand.
  std::string expected(
      "\x01\0\0\0w\x03"
      "F32\x02\0\0\0",
      13);
  expected.append("\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", 16);
  EXPECT_EQ(Layout({Variable("w", {2, 3})})->digest(), Sha256Of(expected));
  EXPECT_NE(Layout({Variable("w", {3, 2})})->digest(), Sha256Of(expected));
  EXPECT_NE(Layout({Variable("v", {2, 3})})->digest(), Sha256Of(expected));
  // A personal layer is nobody else's business.
  EXPECT_EQ(Layout({Variable("w", {2, 3}), Variable("mine", {9}, Segment::kLocal)})->digest(), Sha256Of(expected));
  EXPECT_NE(Layout({Variable("w", {2, 3}), Variable("ours", {9}, Segment::kFrozen)})->digest(), Sha256Of(expected));
}

struct LayoutRefusal {
  std::vector<VariableSpec> variables;
  std::string message;
};

TEST(ModelLayout, BadVariables_AreRefusedByName) {
  const std::vector<LayoutRefusal> refusals = {
      {{}, "the model has no trainable variable with elements, so there is nothing to learn"},
      {{Variable("m", {2}, Segment::kShared)}, "nothing to learn"},
      {{Variable("w", {0})}, "nothing to learn"},
      {{Variable("", {2})}, "a trainable variable has an empty name"},
      {{Variable("w", {2}), Variable("w", {3})}, "two variables are named 'w'"},
      {{Variable("__metadata__", {2})}, "a trainable variable of [2] has a name that no model file can hold"},
      {{Variable("\xff", {2})}, "a name that no model file can hold"},
      {{Variable("\xc0\x80", {2})}, "a name that no model file can hold"},
      {{Variable("\xed\xa0\x80", {2})}, "a name that no model file can hold"},
      {{Variable("caf\xc3", {2})}, "a name that no model file can hold"},
      {{Variable(std::string(1025, 'w'), {2})}, "a name that no model file can hold"},
      {{Variable("w", {-1, 2})}, "variable 'w' cannot be laid out: "},
      {{Variable("w", Shape::UnknownRank())}, "variable 'w' cannot be laid out: "},
      {{Variable("w", {int64_t{1} << 33, int64_t{1} << 33})}, "variable 'w' cannot be laid out: "},
      {{Variable("w", {2}, Segment::kTrainable, DType::kFloat64)},
       "trainable variable 'w' is float64; updates are float32"},
      {{Variable("w", {2}), Variable("n", {2}, Segment::kShared, DType::kInt64)}, "shared variable 'n' is int64"},
      {{Variable("w", {2}), Variable("t", {2}, Segment::kFrozen, DType::kString)}, "which no model file can hold"},
  };
  for (const LayoutRefusal& refusal : refusals) {
    const auto layout = Layout(refusal.variables);
    EXPECT_THAT(layout, StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr(refusal.message)))
        << refusal.message;
  }
}

TEST(ModelLayout, TooManyBytes_AreRefused) {
  std::vector<VariableSpec> variables;
  for (int i = 0; i < 40; ++i) variables.push_back(Variable(fmt::format("w{}", i), {int64_t{1} << 40}));
  const auto layout = Layout(variables);
  EXPECT_THAT(layout, StatusIs(absl::StatusCode::kInvalidArgument,
                               ::testing::HasSubstr("more than 2^46 bytes at variable 'w16'")));
}

TEST(Segment, NamesReadBack) {
  for (const Segment segment : kSegments) EXPECT_EQ(*SegmentFromName(Name(segment)), segment);
  EXPECT_EQ(*SegmentFromName(Name(Segment::kBase)), Segment::kBase);
  EXPECT_EQ(Message(SegmentFromName("trained").status()),
            "segment 'trained' is not one of trainable, shared, local, frozen and base");
}

}  // namespace
}  // namespace rivulet
