#include "client/agent/update_message_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "proto/federated/update.pb.h"

namespace rivulet {
namespace {

TEST(UpdateMessageWriterTest, Message_IsWhatTheGeneratedClassReads) {
  const std::vector<float> kernel(1000, 0.25f), bias = {1, -2};
  const FloatRun runs[] = {{kernel.data(), nullptr, 1000}, {bias.data(), nullptr, 2}};
  const PartView part{.name = "delta", .runs = runs};
  const std::string bytes = WriteUpdate({&part, 1}, {{"steps", 7}, {"examples", -0.5}});
  proto::Update update;
  ASSERT_TRUE(update.ParseFromString(bytes));
  ASSERT_EQ(update.parts_size(), 1);
  EXPECT_EQ(update.parts(0).name(), "delta");
  ASSERT_EQ(update.parts(0).data().size(), 1002 * sizeof(float));
  float last[2];
  std::memcpy(last, update.parts(0).data().data() + 1000 * sizeof(float), sizeof(last));
  EXPECT_EQ(last[0], 1);
  EXPECT_EQ(last[1], -2);
  EXPECT_EQ(update.scalars().at("steps"), 7);
  EXPECT_EQ(update.scalars().at("examples"), -0.5);
  EXPECT_EQ(update.ByteSizeLong(), bytes.size());  // nothing unknown, nothing twice
}

TEST(UpdateMessageWriterTest, Message_TakesOneAllocationOfItsSize) {
  const std::vector<float> values(100'000, 1.0f);
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  const PartView part{.name = "delta", .runs = {&run, 1}};
  const std::string bytes = WriteUpdate({&part, 1}, {});
  EXPECT_EQ(bytes.capacity(), bytes.size());
}

TEST(UpdateMessageWriterTest, PartWithoutValues_IsStillAPart) {
  proto::Update update;
  const PartView part{.name = "delta"};
  ASSERT_TRUE(update.ParseFromString(WriteUpdate({&part, 1}, {})));
  EXPECT_EQ(update.parts_size(), 1);
}

TEST(UpdateMessageWriterTest, RunThatIsADifference_IsSubtractedAsItIsWritten) {
  std::vector<float> now(3000), before(3000);
  for (size_t i = 0; i < now.size(); ++i) {
    now[i] = static_cast<float>(i) * 0.37f;
    before[i] = static_cast<float>(i % 7) * 0.11f;
  }
  const FloatRun runs[] = {{now.data(), before.data(), 2999}, {now.data() + 2999, nullptr, 1}};
  const PartView part{.name = "delta", .runs = runs};
  proto::Update update;
  ASSERT_TRUE(update.ParseFromString(WriteUpdate({&part, 1}, {})));
  ASSERT_EQ(update.parts(0).data().size(), 3000 * sizeof(float));
  for (size_t i = 0; i < 3000; ++i) {
    float value;
    std::memcpy(&value, update.parts(0).data().data() + i * sizeof(float), sizeof(float));
    ASSERT_EQ(value, i < 2999 ? now[i] - before[i] : now[i]) << i;
  }
}

TEST(UpdateMessageWriterTest, ResultOfATask_HasWhatItDeclaresAndNothingOfTheClock) {
  const float values[] = {1, 2};
  const FloatRun run{values, nullptr, 2};
  LocalResult result;
  result.parts = {{.name = "delta", .runs = {&run, 1}}};
  result.declared = {{"examples", 27}, {"steps", 6}, {"train_loss", 0.5}};
  result.examples = 27;
  result.train_seconds = 0.25;
  proto::Update update;
  const std::string bytes = WriteUpdate(result);
  ASSERT_TRUE(update.ParseFromString(bytes));
  ASSERT_EQ(update.parts_size(), 1);
  EXPECT_EQ(update.scalars().size(), 3u);
  EXPECT_EQ(update.scalars().at("examples"), 27);
  EXPECT_EQ(update.scalars().at("steps"), 6);
  EXPECT_EQ(update.scalars().at("train_loss"), 0.5);
  result.train_seconds = 0.5;
  EXPECT_EQ(WriteUpdate(result), bytes) << "trained again, at another speed";
}

}  // namespace
}  // namespace rivulet
