#include "engine/datasets/source_file.h"

#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class SourceFileTest : public DataTest {};

TEST_F(SourceFileTest, BytesAndBlocks_FollowEachOther) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text.push_back(static_cast<char>(i % 251));
  for (const std::string& stored : {text, Pack(text, 31)}) {
    const auto source = SourceFile::Open(Write("f", stored));
    ASSERT_OK(source);
    EXPECT_EQ((*source)->Peek(), 0);
    EXPECT_EQ((*source)->Next(), 0);
    EXPECT_EQ((*source)->Next(), 1);
    EXPECT_EQ((*source)->offset(), 2u);
    std::string block(99'990, 0);
    const auto read = (*source)->Read(std::as_writable_bytes(std::span(block)));
    ASSERT_OK(read);
    EXPECT_EQ(*read, block.size());
    EXPECT_EQ(block, text.substr(2, block.size()));
    EXPECT_EQ((*source)->offset(), 99'992u);
    EXPECT_EQ(*(*source)->Read(std::as_writable_bytes(std::span(block))), 8u);
    EXPECT_EQ((*source)->Next(), -1);
    EXPECT_OK((*source)->status());
  }
}

TEST_F(SourceFileTest, PackingByName_LeavesOtherNamesAlone) {
  const std::string packed = Pack("text", 31);
  const auto plain = SourceFile::Open(Write("f.bin", packed), SourceFile::Packing::kByName);
  ASSERT_OK(plain);
  EXPECT_EQ((*plain)->Next(), static_cast<uint8_t>(packed[0]));
  const auto unpacked = SourceFile::Open(Write("f.gz", packed), SourceFile::Packing::kByName);
  ASSERT_OK(unpacked);
  EXPECT_EQ((*unpacked)->Next(), 't');
}

TEST_F(SourceFileTest, DamageAndBombs_EndIt) {
  EXPECT_THAT(SourceFile::Open(Path("no")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such file")));
  const auto cut = SourceFile::Open(Write("cut", Pack("some text", 31).substr(0, 15)));
  ASSERT_OK(cut);
  while ((*cut)->Next() >= 0) {
  }
  EXPECT_THAT((*cut)->status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut: ")));
  std::string bomb;
  const std::string member = Pack(std::string(size_t{1} << 26, ' '), 31);
  for (int i = 0; i < 17; ++i) bomb += member;
  const auto source = SourceFile::Open(Write("bomb.gz", bomb));
  ASSERT_OK(source);
  std::string block(1 << 20, 0);
  StatusOr<size_t> read = 1;
  while (read.ok() && *read > 0) read = (*source)->Read(std::as_writable_bytes(std::span(block)));
  EXPECT_THAT(read, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bomb.gz: ")));
}

}  // namespace
}  // namespace rivulet
