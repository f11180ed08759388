#include "client/update_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "proto/federated/update.pb.h"

namespace rivulet {
namespace {

TEST(UpdateEncoderTest, Encoded_IsWhatTheGeneratedClassReads) {
  const std::vector<float> kernel(1000, 0.25f), bias = {1, -2};
  const std::vector<FloatSpan> runs = {kernel, bias};
  const std::string bytes = EncodeUpdate("task", runs, 300, {{"steps", 7}, {"examples", -0.5}});
  proto::Update update;
  ASSERT_TRUE(update.ParseFromString(bytes));
  EXPECT_EQ(update.task_id(), "task");
  ASSERT_EQ(update.parts_size(), 1);
  EXPECT_EQ(update.parts(0).name(), "delta");
  EXPECT_EQ(update.parts(0).weight(), 300);
  ASSERT_EQ(update.parts(0).data().size(), 1002 * sizeof(float));
  float last[2];
  std::memcpy(last, update.parts(0).data().data() + 1000 * sizeof(float), sizeof(last));
  EXPECT_EQ(last[0], 1);
  EXPECT_EQ(last[1], -2);
  EXPECT_EQ(update.scalars().at("steps"), 7);
  EXPECT_EQ(update.scalars().at("examples"), -0.5);
  EXPECT_EQ(update.ByteSizeLong(), bytes.size());  // nothing unknown, nothing twice
}

TEST(UpdateEncoderTest, Encoded_TakesOneAllocationOfItsSize) {
  const std::vector<float> values(100'000, 1.0f);
  const std::vector<FloatSpan> runs = {values};
  const std::string bytes = EncodeUpdate("task", runs, 1, {});
  EXPECT_EQ(bytes.capacity(), bytes.size());
}

TEST(UpdateEncoderTest, EmptyDelta_IsStillAPart) {
  proto::Update update;
  ASSERT_TRUE(update.ParseFromString(EncodeUpdate("", {}, 1, {})));
  EXPECT_EQ(update.parts_size(), 1);
  EXPECT_EQ(update.parts(0).encoding(), 1u);
}

}  // namespace
}  // namespace rivulet
