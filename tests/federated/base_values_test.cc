#include "federated/plan/base_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/io/safetensors.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

class BaseValuesTest : public ::testing::Test {
 protected:
  // Tensors "a" of 3 values and "b" of 16, as a base and as the file that it travels as.
  void SetUp() override {
    const std::vector<float> a = {1, 2, 3}, b(16, 0.5F);
    base_ =
        Write("own", *SerializeSafetensors(
                         std::vector<SafetensorsEntry>{{"a", DType::kFloat32, Shape{3}, std::as_bytes(std::span(a))},
                                                       {"b", DType::kFloat32, Shape{16}, std::as_bytes(std::span(b))}},
                         {{"pad", "to an odd place"}}));
    std::string travelling(static_cast<size_t>(base_->travel_bytes()), '\0');
    ASSERT_OK(base_->ReadTravelling(0, std::as_writable_bytes(std::span(travelling))));
    kept_ = Write("kept", travelling);
  }
  std::shared_ptr<const Base> Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_.path() + "/" + name + ".safetensors";
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, bytes));
    return *Base::Open(path);
  }
  StatusOr<ModelLayout> Layout(int64_t b = 16) {
    const std::vector<VariableSpec> variables = {{"t", {DType::kFloat32, Shape{2}}, Segment::kTrainable},
                                                 {"b", {DType::kFloat32, Shape{b}}, Segment::kBase},
                                                 {"a", {DType::kFloat32, Shape{3}}, Segment::kBase}};
    return ModelLayout::Create(variables, base_->digest());
  }

  testing::TempFolder folder_;
  std::shared_ptr<const Base> base_, kept_;
};

TEST_F(BaseValuesTest, Of_ADownload_IsReadWhereItIsMapped) {
  ASSERT_OK_AND_ASSIGN(const ModelLayout layout, Layout());
  ASSERT_OK_AND_ASSIGN(const auto values, BaseValues::Of(kept_, layout));
  EXPECT_EQ(values->copied_bytes(), 0);
  ASSERT_EQ(values->buffers().size(), 2u);
  EXPECT_EQ(values->buffers()[0].data, kept_->Mapped(*kept_->Find("b")));
  for (const Buffer& buffer : values->buffers()) EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 64, 0u);
}

TEST_F(BaseValuesTest, Of_OddPlaces_AreCopiedOnce) {
  ASSERT_OK_AND_ASSIGN(const ModelLayout layout, Layout());
  ASSERT_OK_AND_ASSIGN(const auto values, BaseValues::Of(base_, layout));
  EXPECT_GT(values->copied_bytes(), 0);
  const std::vector<float> a = {1, 2, 3};
  for (const Buffer& buffer : values->buffers()) EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 64, 0u);
  EXPECT_EQ(std::memcmp(values->buffers()[1].data, a.data(), 12), 0);
}

TEST_F(BaseValuesTest, Of_AnotherBaseOrShape_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const ModelLayout layout, Layout(15));
  EXPECT_THAT(BaseValues::Of(base_, layout),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'b' as float32[16]")));
  const std::vector<float> other = {1};
  const auto another =
      Write("other",
            *SerializeSafetensors(
                std::vector<SafetensorsEntry>{{"a", DType::kFloat32, Shape{1}, std::as_bytes(std::span(other))}}, {}));
  ASSERT_OK_AND_ASSIGN(const ModelLayout right, Layout());
  EXPECT_THAT(BaseValues::Of(another, right),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(base_->digest().Hex())));
}

TEST_F(BaseValuesTest, BindVariables_ArenaFirst_ThenOneBufferEach) {
  ASSERT_OK_AND_ASSIGN(const ModelLayout layout, Layout());
  const std::vector<VariableBinding> variables = BindVariables(layout);
  ASSERT_EQ(variables.size(), 3u);
  EXPECT_EQ(variables[0].buffer, 0);
  EXPECT_EQ(variables[1].name, "b");
  EXPECT_EQ(variables[1].buffer, 1);
  EXPECT_EQ(variables[2].buffer, 2);
}

}  // namespace
}  // namespace rivulet
