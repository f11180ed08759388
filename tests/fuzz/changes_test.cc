#include "tests/fuzz/changes.h"

#include <google/protobuf/empty.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "proto/federated/update.pb.h"

namespace rivulet::fuzz {
namespace {

// A message of strings, numbers of every width and messages within messages.
std::string SomeMessage() {
  rivulet::proto::Update message;
  for (const char* name : {"delta", "dc"}) {
    rivulet::proto::UpdatePart* const part = message.add_parts();
    part->set_name(name);
    part->set_data(std::string(24, '\x3f'));
  }
  (*message.mutable_scalars())["examples"] = 600;
  return message.SerializeAsString();
}

bool IsMessage(const std::string& bytes) {
  google::protobuf::Empty any;  // whose fields are all unknown
  return any.ParseFromString(bytes);
}

std::string Unchanged(std::string_view bytes) { return std::string(bytes); }

TEST(ChangedMessageTest, AnyChange_LeavesAMessage) {
  std::mt19937 random(1);
  const std::string seed = SomeMessage();
  const auto change = [&](std::string_view bytes) { return ChangedBytes(std::string(bytes), {&seed, 1}, random); };
  std::string message = seed;
  std::set<std::string> seen;
  for (int i = 0; i < 3'000; ++i) {
    const std::string changed = ChangedMessage(message, random, change);
    ASSERT_TRUE(IsMessage(changed)) << "change " << i;
    seen.insert(changed);
    message = changed.size() > 500 || i % 50 == 0 ? seed : changed;
  }
  EXPECT_GT(seen.size(), 2'000u);
}

TEST(ChangedMessageTest, WhatAStringHolds_IsChangedAndTheLengthsAroundIt) {
  std::mt19937 random(1);
  int longer_names = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string changed = ChangedMessage(SomeMessage(), random, [](std::string_view bytes) {
      return bytes == "delta" ? std::string(200, 'd') : std::string(bytes);
    });
    rivulet::proto::Update read;
    if (read.ParseFromString(changed) && read.parts_size() == 2 && read.parts(0).name().size() == 200) ++longer_names;
  }
  EXPECT_GT(longer_names, 10);
}

TEST(ChangedMessageTest, NoMessage_IsChangedAsBytes) {
  std::mt19937 random(1);
  for (const std::string& bytes : {std::string("\xff\xff\xff"),
                                   std::string("\x0a\x05"
                                               "ab"),
                                   std::string("\x03")}) {
    EXPECT_EQ(ChangedMessage(bytes, random, [](std::string_view given) { return "<" + std::string(given) + ">"; }),
              "<" + bytes + ">");
  }
}

TEST(ChangedMessageTest, EmptyMessage_GetsAField) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const std::string changed = ChangedMessage("", random, Unchanged);
    EXPECT_FALSE(changed.empty());
    EXPECT_TRUE(IsMessage(changed));
  }
}

// Parsers that go down by themselves meet depths that nobody would write.
TEST(ChangedMessageTest, FieldWithinItself_ComesAtDepthsOfAHundred) {
  std::mt19937 random(1);
  size_t deepest = 0;
  for (int i = 0; i < 3'000; ++i) {
    const std::string changed = ChangedMessage("\x0a\x02\x10\x05", random, Unchanged);
    size_t depth = 0;
    for (size_t at = 0; at < changed.size() && changed[at] == '\x0a'; ++depth) {
      while (++at < changed.size() && (static_cast<uint8_t>(changed[at]) & 0x80) != 0) {
      }
      ++at;
    }
    deepest = std::max(deepest, depth);
  }
  EXPECT_GT(deepest, 100u);
}

}  // namespace
}  // namespace rivulet::fuzz
