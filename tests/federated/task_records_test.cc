#include "federated/updates/task_records.h"

#include <gmock/gmock.h>

#include <cmath>

#include "proto/federated/partial.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

TaskRecord RecordFor(const std::string& task) {
  return {task, 12, 3, {{"examples", 12}, {"steps", 3}, {"train_loss", 0.25}}, 1.5, {0.125, 0.0625, 50, true}};
}

std::span<const std::byte> BytesIn(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

TEST(TaskRecordsTest, WrittenAndRead_AreTheSame) {
  const std::vector<TaskRecord> records = {RecordFor("b"), RecordFor("a")};
  const std::string bytes = WriteTaskRecords(records);
  EXPECT_EQ(bytes, WriteTaskRecords(records));
  const std::string with_more = bytes + "and a partial";
  const auto read = ReadTaskRecords(BytesIn(with_more), 2);
  ASSERT_OK(read);
  ASSERT_EQ(read->records.size(), 2u);
  const TaskRecord& b = read->records[0];
  EXPECT_EQ(b.task, "b");
  EXPECT_EQ(b.examples, 12);
  EXPECT_EQ(b.steps, 3);
  EXPECT_EQ(b.declared, records[0].declared);
  EXPECT_EQ(b.norm, 1.5);
  EXPECT_EQ(b.measured.train_seconds, 0.125);
  EXPECT_EQ(b.measured.fold_seconds, 0.0625);
  EXPECT_EQ(b.measured.lanes, 50);
  EXPECT_TRUE(b.measured.tf32);
  EXPECT_EQ(read->rest.size(), std::string("and a partial").size());
}

TEST(TaskRecordsTest, CutAnywhere_IsRefused) {
  const std::string bytes = WriteTaskRecords(std::vector{RecordFor("a"), RecordFor("b")});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ReadTaskRecords(BytesIn(bytes).first(size), 2), StatusIs(absl::StatusCode::kInvalidArgument)) << size;
  }
}

TEST(TaskRecordsTest, WhatNoSiteMaySay_IsRefused) {
  const auto refused = [](TaskRecord record, int64_t most = 2) {
    const std::string bytes = WriteTaskRecords(std::vector{RecordFor("a"), std::move(record)});
    return ReadTaskRecords(BytesIn(bytes), most).status();
  };
  EXPECT_OK(refused(RecordFor("b")));
  EXPECT_THAT(refused(RecordFor("a")), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two records of task")));
  EXPECT_THAT(refused(RecordFor("b"), 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 records, more")));
  EXPECT_THAT(refused(RecordFor("")), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refused(RecordFor(std::string(1025, 'x'))), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto with = [&](auto change) {
    TaskRecord record = RecordFor("b");
    change(record);
    return refused(record);
  };
  EXPECT_THAT(with([](TaskRecord& r) { r.declared["train_loss"] = std::nan(""); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("train_loss = nan")));
  EXPECT_THAT(with([](TaskRecord& r) { r.declared["x"] = INFINITY; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.declared.erase("examples"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'examples'")));
  EXPECT_THAT(with([](TaskRecord& r) { r.declared["examples"] = 1.5; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.norm = -1; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a norm = -1")));
  EXPECT_THAT(with([](TaskRecord& r) { r.measured.train_seconds = INFINITY; }),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.measured.fold_seconds = -1; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.measured.lanes = -1; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) {
                for (int i = 0; i < 65; ++i) r.declared[std::to_string(i)] = i;
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64")));
}

TEST(TaskRecordsTest, ScalarTwice_IsRefused) {
  proto::TaskRecordsProto message;
  proto::TaskRecordProto& record = *message.add_records();
  record.set_task("a");
  for (int i = 0; i < 2; ++i) {
    record.add_declared()->set_name("examples");
    record.mutable_declared(i)->set_value(3);
  }
  const std::string body = message.SerializeAsString();
  std::string bytes = "RVTASKS1";
  const auto length = static_cast<uint32_t>(body.size());
  bytes.append(reinterpret_cast<const char*>(&length), 4);
  bytes += body;
  EXPECT_THAT(ReadTaskRecords(BytesIn(bytes), 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("or not once")));
}

// What a version of so many tasks needs fits what a site may announce.
TEST(TaskRecordsTest, HundredThousand_AreReadBack) {
  std::vector<TaskRecord> records;
  for (int i = 0; i < 100'000; ++i) records.push_back(RecordFor(fmt::format("tiny-run-r1-a1-client-{:05}-0", i)));
  const std::string bytes = WriteTaskRecords(records);
  EXPECT_LT(std::ssize(bytes), MostTaskRecordBytes(100'000));
  const auto read = ReadTaskRecords(BytesIn(bytes), 100'000);
  ASSERT_OK(read);
  EXPECT_EQ(read->records.size(), records.size());
  EXPECT_EQ(read->records.back().task, records.back().task);
}

}  // namespace
}  // namespace rivulet
