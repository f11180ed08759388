#include "federated/updates/task_records.h"

#include <absl/strings/escaping.h>
#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>

#include <cmath>
#include <set>

#include "proto/federated/partial.pb.h"
#include "tests/testing/record_of.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

TaskRecord RecordFor(const std::string& task) {
  TaskRecord record = RecordOf(task, {{"examples", 12}, {"steps", 3}, {"train_loss", 0.25}});
  record.update_norm = 1.5;
  record.train_seconds = 0.125;
  record.fold_seconds = 0.0625;
  record.lanes = 50;
  record.tf32 = true;
  return record;
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
  EXPECT_EQ(b.result(), records[0].result());
  EXPECT_EQ(b.examples, 12);
  EXPECT_EQ(b.steps, 3);
  EXPECT_EQ(b.declared, records[0].declared);
  EXPECT_EQ(read->rest.size(), std::string("and a partial").size());
}

std::string Framed(const std::string& body) {
  std::string bytes = "RVTASKS1";
  const auto length = static_cast<uint32_t>(body.size());
  return bytes.append(reinterpret_cast<const char*>(&length), 4) + body;
}

// The record of RecordFor("a"), as Rivulet 0.1.0 wrote it with a field of the message for each column.
TEST(TaskRecordsTest, BytesOfThen_AreReadAndWritten) {
  const std::string then = absl::HexStringToBytes(
      "0a600a016112130a086578616d706c657311000000000000284012100a05737465707311000000000000084012"
      "150a0a747261696e5f6c6f737311000000000000d03f19000000000000f83f21000000000000c03f2900000000"
      "0000b03f30323801");
  EXPECT_EQ(WriteTaskRecords(std::vector{RecordFor("a")}), Framed(then));
  const std::string framed = Framed(then);
  ASSERT_OK_AND_ASSIGN(const TaskRecords read, ReadTaskRecords(BytesIn(framed), 1));
  EXPECT_EQ(read.records[0].result(), RecordFor("a").result());
}

// Columns of a later program are skipped, and what this one's are is told from another type of theirs.
TEST(TaskRecordsTest, FieldsOfLaterPrograms_AreSkipped) {
  proto::TaskRecordsProto message;
  proto::TaskRecordProto& record = *message.add_records();
  record.set_task("a");
  record.add_declared()->set_name("examples");
  record.mutable_declared(0)->set_value(3);
  auto* const fields = record.GetReflection()->MutableUnknownFields(&record);
  fields->AddVarint(3, 7);             // update_norm is no count
  fields->AddLengthDelimited(4, "x");  // nor is train_seconds a text
  fields->AddVarint(6, 5);
  fields->AddVarint(99, 7);
  const std::string bytes = Framed(message.SerializeAsString());
  ASSERT_OK_AND_ASSIGN(const TaskRecords read, ReadTaskRecords(BytesIn(bytes), 1));
  TaskResult expected;
  expected.examples = 3;
  expected.lanes = 5;
  EXPECT_EQ(read.records[0].result(), expected);
}

TEST(TaskRecordsTest, EveryColumnOfASite_HasItsOwnField) {
  std::set<int> fields;
  ForEachTaskColumn([&](const auto& column) {
    if (column.by == StatedBy::kSite) {
      EXPECT_GT(column.field, 2) << column.name;
      EXPECT_TRUE(fields.insert(column.field).second) << column.name;
    } else {
      EXPECT_EQ(column.field, 0) << column.name;
    }
  });
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
  EXPECT_THAT(with([](TaskRecord& r) { r.update_norm = -1; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update_norm = -1")));
  EXPECT_THAT(with([](TaskRecord& r) { r.train_seconds = INFINITY; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.fold_seconds = -1; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) { r.lanes = -1; }), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(with([](TaskRecord& r) {
                for (int i = 0; i < 65; ++i) r.declared[std::to_string(i)] = i;
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 64")));
}

// A plan that sums a metric's counts has as many scalars more.
TEST(TaskRecordsTest, ScalarsOfThePlan_AreTakenBesides) {
  TaskRecord record = RecordFor("a");
  for (int i = 0; i < 1000; ++i) record.declared[fmt::format("evaluate/average_precision/count/{:04}", i)] = i;
  const std::string bytes = WriteTaskRecords(std::vector{record});
  EXPECT_OK(ReadTaskRecords(BytesIn(bytes), 1, 1000).status());
  EXPECT_THAT(ReadTaskRecords(BytesIn(bytes), 1, 500), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TaskRecordsTest, ScalarTwice_IsRefused) {
  proto::TaskRecordsProto message;
  proto::TaskRecordProto& record = *message.add_records();
  record.set_task("a");
  for (int i = 0; i < 2; ++i) {
    record.add_declared()->set_name("examples");
    record.mutable_declared(i)->set_value(3);
  }
  const std::string bytes = Framed(message.SerializeAsString());
  EXPECT_THAT(ReadTaskRecords(BytesIn(bytes), 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("or is repeated")));
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
