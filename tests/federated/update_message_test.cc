#include "federated/updates/update_message.h"

#include "proto/federated/update.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

proto::Update SampleUpdate() {
  proto::Update update;
  proto::UpdatePart* part = update.add_parts();
  part->set_name("delta");
  part->set_data(std::string(1000, '\x3f'));
  (*update.mutable_scalars())["train_loss"] = 0.25;
  (*update.mutable_scalars())["examples"] = 600;
  (*update.mutable_scalars())["steps"] = 0;
  return update;
}

TEST(ParseUpdate, ReadsWhatProtobufWrites) {
  const std::string bytes = SampleUpdate().SerializeAsString();
  const auto update = ParseUpdate(bytes);
  ASSERT_OK(update);
  ASSERT_EQ(update->parts.size(), 1u);
  EXPECT_EQ(update->parts[0].name, "delta");
  EXPECT_EQ(update->parts[0].data.size(), 1000u);
  // Borrowed, not copied.
  EXPECT_GE(reinterpret_cast<const char*>(update->parts[0].data.data()), bytes.data());
  EXPECT_LT(reinterpret_cast<const char*>(update->parts[0].data.data()), bytes.data() + bytes.size());
  EXPECT_EQ(update->scalars, (Scalars{{"examples", 600}, {"steps", 0}, {"train_loss", 0.25}}));
}

TEST(ParseUpdate, MissingData_IsEmpty) {
  proto::Update message = SampleUpdate();
  message.mutable_parts(0)->clear_data();
  const std::string bytes = message.SerializeAsString();
  const auto update = ParseUpdate(bytes);
  ASSERT_OK(update);
  EXPECT_TRUE(update->parts[0].data.empty());
}

TEST(ParseUpdate, UnknownFields_AreSkipped) {
  std::string bytes = SampleUpdate().SerializeAsString();
  bytes += std::string("\x78\x05", 2);  // field 15, varint
  bytes += std::string(
      "\x7a\x03"
      "abc",
      5);                                             // field 15, bytes
  bytes += std::string("\x7d\x01\x02\x03\x04", 5);    // field 15, fixed32
  bytes += std::string("\x79\1\2\3\4\5\6\7\x08", 9);  // field 15, fixed64
  EXPECT_OK(ParseUpdate(bytes));
}

std::string ErrorOf(const std::string& bytes) {
  const auto update = ParseUpdate(bytes);
  if (update.ok()) return "no error";
  EXPECT_THAT(update, StatusIs(absl::StatusCode::kInvalidArgument));
  return std::string(Message(update.status()));
}

TEST(ParseUpdate, Nonsense_IsRefusedInASentence) {
  EXPECT_EQ(ErrorOf("\x0a"), "this is no Update message: it ends inside a number");
  EXPECT_EQ(ErrorOf("\x0a\x05"
                    "ab"),
            "this is no Update message: a field of 5 bytes has 2 left");
  EXPECT_EQ(ErrorOf(std::string(11, '\xff')), "this is no Update message: a number has more than 64 bits");
  EXPECT_THAT(ErrorOf("\x0b"), HasSubstr("wire type 3"));

  proto::Update message = SampleUpdate();
  *message.add_parts() = message.parts(0);
  EXPECT_THAT(ErrorOf(message.SerializeAsString()), HasSubstr("the part 'delta' is there twice"));
  message = SampleUpdate();
  message.mutable_parts(0)->clear_name();
  EXPECT_THAT(ErrorOf(message.SerializeAsString()), HasSubstr("a part's name must not be empty"));
  message.mutable_parts(0)->set_name("delta\n\x1b[31m");
  EXPECT_THAT(ErrorOf(message.SerializeAsString()), HasSubstr("a part's name has the character U+000A at byte 5"));
  message = SampleUpdate();
  for (int i = 0; i < 10001; ++i) (*message.mutable_scalars())[fmt::format("s{}", i)] = i;
  EXPECT_THAT(ErrorOf(message.SerializeAsString()), HasSubstr("more than 10000 scalars"));
  message = SampleUpdate();
  for (int i = 0; i < 20; ++i) {
    proto::UpdatePart part = message.parts(0);
    part.set_name(fmt::format("p{}", i));
    *message.add_parts() = part;
  }
  EXPECT_THAT(ErrorOf(message.SerializeAsString()), HasSubstr("more than 16 parts"));
  std::string twice = SampleUpdate().SerializeAsString();
  for (int i = 0; i < 2; ++i) twice.append("\x1a\x0c\x0a\x01s\x11\0\0\0\0\0\0\0\0", 14);
  EXPECT_THAT(ErrorOf(twice), HasSubstr("the scalar 's' is there twice"));
}

TEST(ParseUpdate, CutAnywhere_NeverCrashes) {
  const std::string bytes = SampleUpdate().SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) (void)ParseUpdate(bytes.substr(0, length));
  for (size_t at = 0; at < 80; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      (void)ParseUpdate(changed);
    }
  }
}

}  // namespace
}  // namespace rivulet
