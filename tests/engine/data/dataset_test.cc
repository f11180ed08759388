#include "engine/data/dataset.h"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "engine/data/example.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class DatasetTest : public DataTest {
 protected:
  std::string OpenError(const std::string& path) const {
    const auto data = Dataset::Open({path});
    return data.ok() ? "opened" : Relative(data.status());
  }
  std::string Relative(const Status& status) const { return folder_.Relative(Message(status)); }
};

TEST_F(DatasetTest, SeveralFiles_AreOneDataSet) {
  const auto data = Dataset::Open(
      {Write("a", Frames({"0", "1"})), Write("empty", ""), Write("b.gz", Pack(Frames({"22", "333"}), 31))});
  ASSERT_OK(data);
  ASSERT_EQ((*data)->size(), 4);
  std::string buffer = "longer than any record";
  for (const auto& [index, want] :
       std::vector<std::pair<int64_t, std::string>>{{3, "333"}, {0, "0"}, {2, "22"}, {1, "1"}}) {
    ASSERT_OK((*data)->Read(index, buffer));
    EXPECT_EQ(buffer, want);
  }
  EXPECT_EQ((*data)->Where(1), Path("a") + ": record 1 at byte 17");
  EXPECT_EQ((*data)->Where(3), Path("b.gz") + ": record 1 at byte 18");
  EXPECT_THAT((*data)->Read(4, buffer), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT((*data)->Read(-1, buffer), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(DatasetTest, DamageOfLengths_IsToldWhenOpened) {
  std::string file = Frames({"abc", "defg"});
  EXPECT_THAT(OpenError(Write("f", file.substr(0, 30))),
              HasSubstr("f: record 1 at byte 19: cut off: 11 of the header's 12 bytes are there"));
  EXPECT_THAT(OpenError(Write("f", file.substr(0, 33))),
              HasSubstr("f: record 1 at byte 19: the record says it has 4 bytes of data, but the file ends 2 bytes"));
  file[20] ^= 1;
  EXPECT_THAT(OpenError(Write("f", file)), HasSubstr("f: record 1 at byte 19: the length's checksum is wrong"));
  EXPECT_THAT(OpenError(Write("f", Pack(file, 31))),
              HasSubstr("f: record 1 at byte 19: the length's checksum is wrong"));
  EXPECT_EQ(OpenError(Path("missing")), "missing: no such file");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(OpenError(Path("pipe")), HasSubstr("pipe: record 0 at byte 0: a pipe cannot be read by position"));
}

TEST_F(DatasetTest, DamageOfData_IsToldWhenThatRecordIsRead) {
  std::string file = Frames({"abc", "defg", "h"});
  file[19 + 12] ^= 1;
  const auto data = Dataset::Open({Write("f", file)});
  ASSERT_OK(data);
  std::string buffer;
  EXPECT_OK((*data)->Read(0, buffer));
  EXPECT_OK((*data)->Read(2, buffer));
  const Status status = (*data)->Read(1, buffer);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(Relative(status), HasSubstr("f: record 1 at byte 19: the data's checksum is wrong"));
}

TEST_F(DatasetTest, FileThatShrinks_IsAnErrorOfItsRecords) {
  const std::string path = Write("f", Frames({std::string(50000, 'a'), std::string(50000, 'b')}));
  const auto data = Dataset::Open({path});
  ASSERT_OK(data);
  ASSERT_EQ(truncate(path.c_str(), 50100), 0);
  std::string buffer;
  EXPECT_OK((*data)->Read(0, buffer));
  EXPECT_EQ(Relative((*data)->Read(1, buffer)),
            "f: record 1 at byte 50016: the file shrank from 100032 to 50100 bytes while it was being read; restore it "
            "and run again");
}

TEST_F(DatasetTest, FileWrittenOverWhileOpen_IsAnErrorAndNotOtherData) {
  const std::string path = Write("f", Frames({"abcdef", "ghi"}));
  const auto data = Dataset::Open({path});
  ASSERT_OK(data);
  Write("f", Frames({"abc", "defghi"}));  // the same size, other records, the same inode
  std::string buffer;
  EXPECT_THAT(Relative((*data)->Read(0, buffer)), HasSubstr("the record has 3 bytes of data where the index has 6"));
  EXPECT_THAT(Relative((*data)->Read(1, buffer)), HasSubstr("record 1 at byte 22: the length's checksum is wrong"));
}

TEST_F(DatasetTest, ExampleOfTheWrongTypeAtTheEnd_IsToldByFileRecordAndByte) {
  std::string frames;
  for (int i = 0; i < 59999; ++i) AppendRecordFrame(ExampleBuilder().Int64("label", i % 10).Serialize(), frames);
  const size_t last = frames.size();
  AppendRecordFrame(ExampleBuilder().Floats("label", std::vector<float>{1}).Serialize(), frames);
  const auto data = Dataset::Open({Write("f", frames)});
  ASSERT_OK(data);
  std::string buffer;
  ASSERT_OK((*data)->Read(59999, buffer));
  int64_t label;
  const Status status = Annotate(FindInt64Feature(buffer, "label", &label), (*data)->Where(59999));
  EXPECT_EQ(Relative(status),
            fmt::format("f: record 59999 at byte {}: feature 'label' is float, but int64 is wanted", last));
}

// Property: any thread may read any record at any time.
TEST_F(DatasetTest, ManyThreads_ReadTheSameRecords) {
  std::vector<std::string> records;
  for (int i = 0; i < 500; ++i) records.push_back(std::string(static_cast<size_t>(i), static_cast<char>('a' + i % 26)));
  const auto data = Dataset::Open({Write("f", Frames(records)), Write("g.gz", Pack(Frames(records), 31))});
  ASSERT_OK(data);
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::string buffer;
      for (int64_t i = 0; i < 1000; ++i) {
        const int64_t index = (i * 7 + static_cast<int64_t>(t) * 131) % 1000;
        if (!(*data)->Read(index, buffer).ok() || buffer != records[static_cast<size_t>(index % 500)]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int each : wrong) EXPECT_EQ(each, 0);
}

}  // namespace
}  // namespace rivulet
