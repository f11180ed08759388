#include "engine/data/tfrecord.h"

#include <sys/stat.h>
#include <unistd.h>

#include "engine/io/crc32c.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TFRecordTest : public DataTest {
 protected:
  std::string Error(const std::string& path, uint64_t bound = 0) const {
    const auto records = ReadRecords(path, bound);
    if (records.ok()) return "read without an error";
    return folder_.Relative(Message(records.status()));
  }
};

// Computed by the definition, bit by bit, with another program.
TEST_F(TFRecordTest, Frame_IsTheBytesOfTheFormat) {
  EXPECT_EQ(Frames({"abc"}), std::string("\x03\0\0\0\0\0\0\0\xb0\x99\x49\x0e"
                                         "abc"
                                         "\x6e\x57\xf1\x21",
                                         19));
}

TEST_F(TFRecordTest, Writer_GivesWhatTheReaderReads) {
  const auto writer = RecordWriter::Create(FileSystem::Default(), Path("f"));
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Append("one"));
  ASSERT_OK((*writer)->Append(""));
  ASSERT_OK((*writer)->Append(std::string(3 << 20, 'z')));
  ASSERT_OK((*writer)->Finish());
  EXPECT_FALSE(std::filesystem::exists(Path("f")));
  ASSERT_OK((*writer)->Publish());
  const auto records = ReadRecords(Path("f"));
  ASSERT_OK(records);
  EXPECT_THAT(*records, ElementsAre("one", "", std::string(3 << 20, 'z')));
}

TEST_F(TFRecordTest, WriterWithoutPublish_LeavesNothing) {
  {
    const auto writer = RecordWriter::Create(FileSystem::Default(), Path("f"));
    ASSERT_OK((*writer)->Append("one"));
    ASSERT_OK((*writer)->Finish());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TFRecordTest, GzipAndZlib_AreUnpacked) {
  const std::string frames = Frames({"first", "second"});
  for (const int window : {31, 15}) {
    const auto records = ReadRecords(Write("f", Pack(frames, window)));
    ASSERT_OK(records);
    EXPECT_THAT(*records, ElementsAre("first", "second"));
  }
  const auto members = ReadRecords(Write("f", Pack(Frames({"a"}), 31) + Pack(Frames({"b"}), 31)));
  ASSERT_OK(members);
  EXPECT_THAT(*members, ElementsAre("a", "b"));
}

TEST_F(TFRecordTest, EmptyFile_HasNoRecords) {
  EXPECT_THAT(*ReadRecords(Write("f", "")), ElementsAre());
  EXPECT_THAT(*ReadRecords(Write("f", Pack("", 31))), ElementsAre());
}

// A length of 0x8B1F begins a plain file as GZIP begins.
TEST_F(TFRecordTest, PlainFileThatBeginsLikeGzip_IsReadAsPlain) {
  const std::string data(0x00088B1F, 'g');
  const auto records = ReadRecords(Write("f", Frames({data})));
  ASSERT_OK(records);
  EXPECT_THAT(*records, ElementsAre(data));
}

TEST_F(TFRecordTest, CorruptLength_IsToldByRecordAndByte) {
  std::string file = Frames({"abc", "defg"});
  file[19] ^= 1;
  EXPECT_THAT(Error(Write("f", file)), HasSubstr("f: record 1 at byte 19: the length's checksum is wrong (stored 0x"));
}

TEST_F(TFRecordTest, OtherFormats_AreToldForWhatTheyLookLike) {
  const std::pair<std::string, const char*> cases[] = {
      {"age,sex,outcome\n61,f,well\n", "it looks like text: import tables with rivulet data import csv"},
      {"{\"users\": [], \"x\": 1}", "it looks like JSON: rivulet data import leaf"},
      {"PK\x03\x04 and so on, and on", "it looks like a ZIP archive: rivulet data import numpy"},
      {"\x93NUMPY and so on, and on", "it looks like an array of NumPy's"},
      {"\x89PNG\r\n\x1a\n and so on", "it looks like an image: rivulet data import images"},
      {"\xff\xd8\xff\xe0 and so on", "it looks like an image"},
      {std::string("\0\0\x08\x03 and so on", 14), "it looks like an IDX file: rivulet data import mnist"}};
  for (const auto& [content, message] : cases)
    EXPECT_THAT(testing::ErrorOf(ReadRecords(Write("f", content))),
                AllOf(HasSubstr("f: record 0 at byte 0: the length's checksum is wrong"), HasSubstr(message)));
  EXPECT_THAT(testing::ErrorOf(ReadRecords(Write("f", std::string(20, '\1')))), ::testing::Not(HasSubstr("it looks")));
}

TEST_F(TFRecordTest, CorruptData_IsToldByRecordAndByte) {
  std::string file = Frames({"abc", "defg", "h"});
  file[19 + 13] ^= 0x40;
  EXPECT_THAT(Error(Write("f", file)), HasSubstr("f: record 1 at byte 19: the data's checksum is wrong (stored 0x"));
  EXPECT_THAT(Error(Write("f", Pack(file, 31))), HasSubstr("f: record 1 at byte 19: the data's checksum is wrong"));
}

TEST_F(TFRecordTest, AbsurdLength_IsRefusedBeforeAnyAllocation) {
  // Valid checksums over lengths that no file has.
  for (const uint64_t length : {uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} - 15}) {
    std::string header;
    for (int i = 0; i < 8; ++i) header.push_back(static_cast<char>(length >> (8 * i)));
    const uint32_t crc = MaskCrc(Crc32c(header));
    for (int i = 0; i < 4; ++i) header.push_back(static_cast<char>(crc >> (8 * i)));
    const std::string file = Frames({"abc"}) + header + "rest of it";
    const std::string want = fmt::format("f: record 1 at byte 19: the record says it has {} bytes of data, ", length);
    EXPECT_THAT(Error(Write("f", file)), HasSubstr(want + "but the file ends 10 bytes after its header"));
    EXPECT_THAT(Error(Write("f", Pack(file, 31))), HasSubstr(want + "more than the 1073741793 that a gzip file"));
  }
}

TEST_F(TFRecordTest, TruncationAtEveryByte_IsToldOrEndsAtARecord) {
  const std::string file = Frames({"abc", "", "defghijkl"});
  const std::vector<size_t> ends = {0, 19, 35, 60};
  ASSERT_EQ(file.size(), 60u);
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string path = Write("f", file.substr(0, size));
    size_t record = 0;
    while (ends[record + 1] <= size) ++record;
    if (ends[record] == size) {
      ASSERT_EQ(ReadRecords(path)->size(), record) << size;
    } else {
      EXPECT_THAT(Error(path), ::testing::StartsWith(fmt::format("f: record {} at byte {}: ", record, ends[record])))
          << size;
    }
  }
}

TEST_F(TFRecordTest, PackedFileTruncatedAtEveryByte_IsTold) {
  const std::string frames = Frames({"abc", "defghijkl"});
  for (const int window : {31, 15}) {
    const std::string packed = Pack(frames, window);
    for (size_t size = 1; size < packed.size(); ++size) {
      EXPECT_THAT(Error(Write("f", packed.substr(0, size))), ::testing::StartsWith("f: record ")) << size;
    }
  }
}

TEST_F(TFRecordTest, DamagedGzipStream_NamesItsByte) {
  std::string packed = Pack(Frames({std::string(1000, 'a'), "b"}), 31);
  std::string tail = packed;
  tail[tail.size() - 6] ^= 1;  // the stream's own CRC
  EXPECT_THAT(Error(Write("f", tail)), HasSubstr("the gzip stream is damaged near byte"));
  EXPECT_THAT(Error(Write("f", packed + "garbage")), HasSubstr("the gzip stream is damaged near byte"));
  EXPECT_THAT(Error(Write("f", Pack(Frames({"a"}), 15) + "garbage")),
              HasSubstr("7 bytes follow the end of the zlib stream"));
}

TEST_F(TFRecordTest, GzipBomb_IsRefusedAtItsBound) {
  // Valid records without end.
  std::string frames;
  for (int i = 0; i < 20000; ++i) AppendRecordFrame(std::string(100, '\0'), frames);
  const std::string path = Write("f", Pack(frames, 31));
  EXPECT_EQ(ReadRecords(path)->size(), 20000u);
  EXPECT_THAT(Error(path, 1 << 20), HasSubstr("more than the 40 that a gzip file"));
  EXPECT_THAT(Error(path, 1 << 20), ::testing::StartsWith("f: record "));
  EXPECT_EQ(DefaultUnpackedBound(1000), uint64_t{1} << 30);
  EXPECT_EQ(DefaultUnpackedBound(uint64_t{1} << 30), uint64_t{1} << 36);
}

TEST_F(TFRecordTest, BombOfZeros_IsRefusedAtItsFirstRecord) {
  EXPECT_THAT(Error(Write("f", Pack(std::string(50 << 20, '\0'), 31))),
              ::testing::StartsWith("f: record 0 at byte 0: the length's checksum is wrong"));
}

TEST_F(TFRecordTest, FileThatShrinksWhileRead_IsAnError) {
  const std::string path = Write("f", Frames({std::string(50000, 'a'), std::string(50000, 'b'), "c"}));
  const auto reader = RecordReader::Open(path);
  ASSERT_OK(reader);
  std::string data;
  ASSERT_OK((*reader)->Next(data));
  ASSERT_EQ(truncate(path.c_str(), 60000), 0);
  EXPECT_THAT((*reader)->Next(data).status().ToString(),
              HasSubstr("record 1 at byte 50016: the file shrank from 100049 to 60000 bytes while it was being read"));
}

TEST_F(TFRecordTest, WhatIsNoFile_IsRefused) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Error(Path("pipe")), HasSubstr("pipe: record 0 at byte 0: a pipe cannot be read by position"));
  EXPECT_THAT(Error(folder_.path()), HasSubstr("record 0 at byte 0: a folder, not a file"));
  EXPECT_EQ(Error(Path("missing")), "missing: no such file");
  EXPECT_THAT(ReadRecords(Path("missing")), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TFRecordTest, RandomDamage_IsAlwaysToldAndNeverCrashes) {
  const std::string frames = Frames({"abc", std::string(300, 'x'), "", "defghijkl"});
  const std::string packed = Pack(frames, 31);
  uint64_t state = 3;
  const auto draw = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  for (int round = 0; round < 300; ++round) {
    std::string file = frames;
    file[draw(file.size())] ^= static_cast<char>(1 + draw(255));
    EXPECT_THAT(Error(Write("f", file)), ::testing::StartsWith("f: record "));
    file = packed;
    file[draw(file.size())] ^= static_cast<char>(1 + draw(255));
    // Some of GZIP's bits mean nothing: the header's time, the padding of the last byte.
    const auto records = ReadRecords(Write("f", file));
    if (records.ok()) {
      EXPECT_EQ(Frames(*records), frames);
    } else {
      EXPECT_THAT(Error(Path("f")), ::testing::StartsWith("f: record "));
    }
  }
}

struct Sample {
  const char* path;
  size_t records;
};

// Counts as their writers give them.
TEST_F(TFRecordTest, FilesOfTensorFlow_AllRead) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const Sample samples[] = {
      {"tfrecord/penguin-train-00000-of-00001.gz", 234},
      {"tfrecord/sequence-example-eval.gz", 4500},
      {"tfrecord/chicago-taxi-eval-00000-of-00012.gz", 424},
      {"tfrecord/next-page.tfrecord.gz", 100},
      {"tfrecord/mnist.tfrecord", 1000},
      {"tfrecord/cifar10_train.tfrecord", 128},
      {"tfrecord/iris-stats-train.tfrecord", 1},
      {"tfevents/iris-keras-train/events.out.tfevents.1598485465.penguin.1486.6519.v2", 244},
      {"tfevents/iris-keras-train/events.out.tfevents.1598485465.penguin.profile-empty", 1},
      {"tfevents/taxi-estimator-eval-2019a/events.out.tfevents.1550769233", 7},
      {"tfevents/taxi-estimator-eval-2022/events.out.tfevents.1646034751", 7},
      {"tfevents/taxi-estimator-train-2022/events.out.tfevents.1646034739", 28},
  };
  for (const Sample& sample : samples) {
    const auto records = ReadRecords(TestData() + "/" + sample.path);
    ASSERT_OK(records);
    EXPECT_EQ(records->size(), sample.records) << sample.path;
  }
}

// Our writer gives back their very bytes.
TEST_F(TFRecordTest, FileOfTensorFlowWrittenAgain_IsTheSame) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const std::string path = TestData() + "/tfrecord/cifar10_train.tfrecord";
  EXPECT_EQ(Frames(*ReadRecords(path)), testing::ContentOf(path));
}

}  // namespace
}  // namespace rivulet
