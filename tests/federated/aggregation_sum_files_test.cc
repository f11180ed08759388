// Sums in files: equal to the bit to sums in memory, reserved before use, and removed with their process.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "federated/aggregation/sum_files.h"
#include "tests/federated/aggregation_updates.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using testing::BytesOf;
using ::testing::HasSubstr;
using testing::Make;
using testing::StatusIs;
using testing::TempFolder;

AggregationSpec SumsSpec(int sum_bits) {
  AggregationSpec spec;
  spec.parts = {{.elements = 10'000, .sum_bits = sum_bits}};
  spec.updates_per_version = 8;
  spec.max_weight = 4;
  return spec;
}

std::vector<testing::TestUpdate> UpdatesOf(int count) {
  std::vector<testing::TestUpdate> updates = testing::RandomUpdates(count, 10'000);
  for (int i = 0; i < count; ++i) updates[static_cast<size_t>(i)].weight = 1 + i % 4;
  return updates;
}

std::unique_ptr<Aggregation> MakeIn(const std::shared_ptr<SumFiles>& files, const AggregationSpec& spec) {
  auto aggregation = Aggregation::Create(spec, files);
  EXPECT_OK(aggregation);
  return *std::move(aggregation);
}

// Mappings of files in `folder`, none of which has a name any more.
int Mapped(const TempFolder& folder) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(folder.path()) != std::string::npos;
  return count;
}

TEST(SumFiles, MeanOfUpdatesAndPartials_IsThatOfMemoryToTheBit) {
  TempFolder folder;
  for (const int sum_bits : {64, 32}) {
    const AggregationSpec spec = SumsSpec(sum_bits);
    const auto files = SumFiles::Create(folder.path(), spec);
    ASSERT_OK(files);
    auto updates = UpdatesOf(6);
    for (int round = 0; round < 2; ++round) {  // the second in the first one's file
      auto here = MakeIn(*files, spec), elsewhere = Make(spec), in_memory = Make(spec);
      for (size_t i = 0; i < updates.size(); ++i) {
        ASSERT_OK(in_memory->Fold(updates[i].view(), updates[i].weights()));
        ASSERT_OK((i < 3 ? here : elsewhere)->Fold(updates[i].view(), updates[i].weights()));
      }
      const std::string bytes = BytesOf(spec, elsewhere->Save()[0]);
      PartialReader reader(spec, files->get());
      ASSERT_OK(reader.Append(std::as_bytes(std::span(bytes))));
      auto partial = std::move(reader).Finish();
      ASSERT_OK(partial);
      EXPECT_EQ(Mapped(folder), 2);
      ASSERT_OK(here->Merge(Partial(*std::move(partial))));
      EXPECT_EQ(Mapped(folder), 1);
      EXPECT_EQ(BytesOf(spec, here->Save()[0]), BytesOf(spec, in_memory->Save()[0]));
      auto mean = std::move(*here).FinishUndivided({});
      ASSERT_OK(mean);
      EXPECT_TRUE(mean->parts[0].undivided->memory().empty()) << "a model would be written into the file";
      mean->parts[0].Divide();
      EXPECT_EQ(mean->parts[0].mean, std::move(*in_memory).Finish()->parts[0].mean);
    }
  }
  EXPECT_EQ(Mapped(folder), 0);
}

TEST(SumFiles, FirstPartial_IsMovedInWithItsFile) {
  TempFolder folder;
  const AggregationSpec spec = SumsSpec(64);
  const auto files = SumFiles::Create(folder.path(), spec);
  ASSERT_OK(files);
  auto updates = UpdatesOf(1);
  auto elsewhere = Make(spec);
  ASSERT_OK(elsewhere->Fold(updates[0].view(), updates[0].weights()));
  const std::string bytes = BytesOf(spec, elsewhere->Save()[0]);
  PartialReader reader(spec, files->get());
  ASSERT_OK(reader.Append(std::as_bytes(std::span(bytes))));
  auto partial = std::move(reader).Finish();
  ASSERT_OK(partial);
  const int64_t* const there = partial->parts[0].sums.data();
  auto here = MakeIn(*files, spec);
  ASSERT_OK(here->Merge(*std::move(partial)));
  EXPECT_EQ(here->Extract(0).parts[0].sums.data(), there);
}

TEST(SumFiles, Files_HaveNoName) {
  TempFolder folder;
  const AggregationSpec spec = SumsSpec(64);
  const auto files = SumFiles::Create(folder.path(), spec);
  ASSERT_OK(files);
  EXPECT_EQ(Mapped(folder), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SumFiles, OneThatIsFreed_IsTakenAgain) {
  TempFolder folder;
  const auto files = SumFiles::Create(folder.path(), SumsSpec(64));
  ASSERT_OK(files);
  auto first = (*files)->Take(80'000);
  ASSERT_OK(first);
  const std::byte* const data = first->get();
  EXPECT_NE((*(*files)->Take(80'000)).get(), data) << "and this one is closed at once";
  first->reset();
  EXPECT_EQ(Mapped(folder), 1);
  EXPECT_EQ((*(*files)->Take(80'000)).get(), data);
}

TEST(SumFiles, BeyondWhatAFileMayHold_SaysSoBeforeAnySum) {
  TempFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{60'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const Status status = SumFiles::Create(folder.path(), SumsSpec(64)).status();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("cannot reserve 80000 bytes")));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ulimit -f")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SumFiles, FolderThatIsNotThere_IsNamed) {
  EXPECT_THAT(SumFiles::Create("/nowhere", SumsSpec(64)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("'/nowhere'")));
}

TEST(SumFiles, SecondVersionWithoutRoom_LeavesTheFirst) {
  TempFolder folder;
  AggregationSpec spec = SumsSpec(64);
  spec.staleness_bits = 8;
  const auto files = SumFiles::Create(folder.path(), spec);
  ASSERT_OK(files);
  auto updates = UpdatesOf(2);
  auto here = MakeIn(*files, spec);
  ASSERT_OK(here->Fold(updates[0].view(), updates[0].weights()));
  const std::string first = BytesOf(spec, here->Save()[0]);
  UpdateView other = updates[1].view();
  other.base_version = 1;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{60'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const Status status = here->Fold(other, updates[1].weights());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_EQ(here->Save().size(), 1u);
  EXPECT_EQ(BytesOf(spec, here->Save()[0]), first);
}

}  // namespace
}  // namespace rivulet
